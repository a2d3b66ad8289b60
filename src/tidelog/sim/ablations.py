"""Safeguards, each with a way to switch it off: the proof that the checkers would miss it.

An ablation replaces one function or property of the production code for the length of a block and
plays seeds of the scenario in which the safeguard matters. Some checker, or some assertion of the
rooms, has to complain; the number of seeds that took is the strength of the net at that place.

The replacements live here and not in the rooms: a switch in production code could be thrown.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from tidelog.controller import brokers, elections, partitions
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.fetch_server import FetchServer
from tidelog.kraft.fetcher import Fetcher
from tidelog.kraft.leader import Leader
from tidelog.kraft.quorum_state import QuorumStateFile
from tidelog.kraft.roles import Ballot, Role, Unattached
from tidelog.log import replay
from tidelog.log.directory import LogDirectory
from tidelog.log.log import Log
from tidelog.log.producer_state import ProducerStates
from tidelog.replication import fetch_path, replicas
from tidelog.replication.brokers import BrokerEpochs
from tidelog.replication.isr import PendingShrink
from tidelog.replication.leader import LeaderState
from tidelog.replication.partition import Partition
from tidelog.sim.campaign import CLUSTER, QUORUM, run_seed

Patch = tuple[Any, str, Any]
"""The class or module that has it, its name there, what takes its place."""


@dataclass(frozen=True, slots=True)
class Safeguard:
    """One safeguard and its absence."""

    name: str
    prevents: str
    tier: str
    scenario: str
    patches: tuple[Patch, ...]


@dataclass(frozen=True, slots=True)
class Kill:
    """What playing without a safeguard showed."""

    safeguard: Safeguard
    seeds: int
    """Seeds played; the last one failed, unless it survived."""
    violated: str | None
    """The property that broke; `None` when nothing did."""


@contextmanager
def switched_off(safeguard: Safeguard) -> Iterator[None]:
    """Takes the safeguard away for the length of a block."""
    missing = object()
    kept = [target.__dict__.get(name, missing) for target, name, _ in safeguard.patches]
    for target, name, replacement in safeguard.patches:
        setattr(target, name, replacement)
    try:
        yield
    finally:
        for (target, name, _), own in zip(safeguard.patches, kept, strict=True):
            if own is missing:
                delattr(target, name)
            else:
                setattr(target, name, own)


def ablate(safeguard: Safeguard, seeds: range) -> Kill:
    """Plays seeds without the safeguard until one fails."""
    with switched_off(safeguard):
        for count, seed in enumerate(seeds, 1):
            outcome = run_seed(safeguard.tier, safeguard.scenario, seed)
            if outcome.violation is not None:
                return Kill(safeguard, count, outcome.violated)
    return Kill(safeguard, len(seeds), None)


# Replacements ------------------------------------------------------------------------------------


def _nothing(*_: Any, **__: Any) -> None:
    """Does nothing."""


def _wait_for_committed_isr(self: LeaderState, replica_id: int, *_: Any) -> bool:
    return replica_id in self.isr


def _expand_without_epoch_start(self: LeaderState, replica_id: int) -> bool:
    remote = self.remotes[replica_id]
    return (
        replica_id not in self.maximal_isr
        and remote.log_end_offset >= self._log.high_watermark
        and self._brokers.may_join_isr(replica_id, remote.broker_epoch)
    )


def _elect_anybody(
    partition: Any, assigned: Any, isr: Any, elr: Any, rules: Any
) -> tuple[elections.Outcome, int]:
    for replica in assigned:
        if rules.may_lead(replica):
            return elections.Outcome.FROM_ISR, replica
    return elections.Outcome.LEADERLESS, -1


def _treat_as_clean(view: Any, existing: Any, request: Any) -> Any:
    return partitions.decide_broker_left(view, request.broker_id, "restarted")


def _commit_any_epoch(leader: Leader) -> bool:
    majority_end = leader.majority_end_offset()
    if majority_end <= leader.high_watermark:
        return False
    leader.high_watermark = majority_end
    return True


def _hasty_write(write: Callable[..., bool]) -> Callable[..., bool]:
    """A promise counts when its write is merely on its way."""

    def hasty(file: QuorumStateFile, state: Any) -> bool:
        written = write(file, state)
        file.on_durable(file.sequence)
        return written

    return hasty


def _load_as_clean(load: Callable[..., None]) -> Callable[..., None]:
    """Every stop counts as a clean one."""
    return lambda self, clean, wall_ms: load(self, True, wall_ms)


def _blind_vote(decide: Callable[..., Any]) -> Callable[..., Any]:
    """A vote that does not look at the candidate's log."""
    return lambda self, request, *, log_is_fresh: decide(self, request, log_is_fresh=True)


_ROLES: Final[tuple[Any, ...]] = (Unattached, *Role.__subclasses__())


# The list ----------------------------------------------------------------------------------------


def _cluster(
    name: str, prevents: str, scenario: str, target: Any, attribute: str, replacement: Any
) -> Safeguard:
    return Safeguard(name, prevents, CLUSTER, scenario, ((target, attribute, replacement),))


def _quorum(name: str, prevents: str, target: Any, attribute: str, replacement: Any) -> Safeguard:
    return Safeguard(name, prevents, QUORUM, "all", ((target, attribute, replacement),))


SAFEGUARDS: Final = (
    _cluster(
        "high-watermark-waits",
        "acknowledging what only the leader has",
        "elections",
        LeaderState,
        "waits_for",
        lambda *_: False,
    ),
    _cluster(
        "pending-expansion-counts",
        "electing a newcomer that lacks committed records",
        "elections",
        LeaderState,
        "waits_for",
        _wait_for_committed_isr,
    ),
    _cluster(
        "pending-shrink-counts",
        "electing a leaver that lacks committed records",
        "elections",
        PendingShrink,
        "maximal_isr",
        property(lambda self: tuple(m for m in self.last.isr if m not in self.leaving)),
    ),
    _cluster(
        "min-isr",
        "committing below the min ISR",
        "lossy-restarts",
        LeaderState,
        "is_under_min_isr",
        property(lambda _: False),
    ),
    _cluster(
        "group-commit-leader",
        "acknowledging what the leader has not flushed",
        "power-cuts",
        LeaderState,
        "own_end_offset",
        property(lambda self: self._log.log_end_offset),
    ),
    _cluster(
        "group-commit-follower",
        "claiming what the follower has not flushed",
        "power-cuts",
        Partition,
        "is_flushed",
        property(lambda _: True),
    ),
    _cluster(
        "divergence",
        "two histories in one partition",
        "elections",
        fetch_path,
        "_divergence",
        lambda *_: None,
    ),
    _cluster(
        "epoch-of-new-leader",
        "keeping uncommitted records of a later epoch",
        "elections",
        Log,
        "assign_epoch",
        lambda *_: False,
    ),
    _cluster(
        "broker-epochs",
        "an ISR member that forgot what it held",
        "power-cuts",
        BrokerEpochs,
        "may_join_isr",
        lambda *_: True,
    ),
    _cluster(
        "present-metadata",
        "leading as in a former life",
        "kills",
        replicas,
        "is_in_force",
        lambda *_: True,
    ),
    _cluster(
        "partition-epochs",
        "following old metadata",
        "elections",
        Partition,
        "objection_to",
        lambda *_: None,
    ),
    _cluster(
        "idempotence",
        "a retry appended twice",
        "links",
        ProducerStates,
        "admit",
        lambda *_: None,
    ),
    _cluster(
        "dedup-windows",
        "refusing a retry after a restart",
        "kills",
        replay,
        "_complete_windows",
        _nothing,
    ),
    _cluster(
        "reads-below-high-watermark",
        "serving what may be lost",
        "elections",
        fetch_path,
        "_upper_for_consumer",
        lambda log, _: log.log_end_offset,
    ),
    _cluster(
        "elections-from-isr",
        "a leader that lacks committed records",
        "elections",
        elections,
        "_elect",
        _elect_anybody,
    ),
    _cluster(
        "unclean-restarts",
        "an ISR member that lost records with its power",
        "lossy-restarts",
        brokers,
        "_clean_up",
        _treat_as_clean,
    ),
    _cluster(
        "eligibility",
        "a fenced or dying replica in the ISR",
        "kills",
        partitions,
        "_ineligible",
        lambda *_: None,
    ),
    _cluster(
        "recovery-after-unclean-stop",
        "trusting a torn log",
        "power-cuts",
        LogDirectory,
        "_load_logs",
        _load_as_clean(LogDirectory._load_logs),
    ),
    _quorum(
        "durable-before-counted-leader",
        "committing what a majority has not flushed",
        QuorumCore,
        "durable_end_offset",
        property(lambda core: core.log.log_end_offset),
    ),
    _quorum(
        "durable-before-counted-follower",
        "claiming what is not flushed",
        Fetcher,
        "may_fetch",
        True,
    ),
    _quorum(
        "durable-votes",
        "voting twice in an epoch",
        QuorumStateFile,
        "maybe_write",
        _hasty_write(QuorumStateFile.maybe_write),
    ),
    _quorum(
        "quorum-divergence",
        "two histories of the metadata",
        FetchServer,
        "_diverging_epoch",
        lambda *_: None,
    ),
    _quorum(
        "majority",
        "two leaders in an epoch",
        Ballot,
        "is_won",
        property(lambda ballot: bool(ballot.granting)),
    ),
    _quorum(
        "own-epoch-first",
        "committing what a later leader may cut",
        Leader,
        "maybe_raise_high_watermark",
        _commit_any_epoch,
    ),
    Safeguard(
        "votes-for-fresh-logs",
        "a leader that lacks committed metadata",
        QUORUM,
        "all",
        tuple((role, "decide_vote", _blind_vote(role.decide_vote)) for role in _ROLES),
    ),
)

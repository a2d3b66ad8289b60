"""Safeguards of the metadata quorum, and what the quorum is without them."""

from collections.abc import Callable
from typing import Any, Final

from tidelog.kraft import transitions
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.events import RoleCause, VoteReason
from tidelog.kraft.fetch_server import FetchServer
from tidelog.kraft.fetcher import Fetcher
from tidelog.kraft.leader import Leader, Progress
from tidelog.kraft.quorum_state import QuorumStateFile
from tidelog.kraft.roles import (
    Ballot,
    Candidate,
    Follower,
    Prospective,
    Resigned,
    Unattached,
    VoteDecision,
)
from tidelog.model import METADATA_PARTITION, EpochEndOffset
from tidelog.sim.ablations.safeguard import of_quorum, of_regression


def _commit_any_epoch(leader: Leader) -> bool:
    majority_end = leader.majority_end_offset()
    if majority_end <= leader.high_watermark:
        return False
    leader.high_watermark = majority_end
    return True


def _hasty_write(write: Callable[..., bool]) -> Callable[..., bool]:
    """A promise counts when its write is merely on its way."""

    def hasty(file: QuorumStateFile, *args: Any) -> bool:
        written = write(file, *args)
        file.on_durable(file.sequence)
        return written

    return hasty


def _blind_vote(decide: Callable[..., Any]) -> Callable[..., Any]:
    """A vote that does not look at the candidate's log."""
    return lambda self, request, *, log_is_fresh: decide(self, request, log_is_fresh=True)


_METADATA: Final = str(METADATA_PARTITION)

_ROLES: Final[tuple[Any, ...]] = (Unattached, Follower, Prospective, Candidate, Resigned)


def _remember_the_most(on_fetch: Callable[..., None]) -> Callable[..., None]:
    """A voter has whatever it ever claimed."""

    def note_most(self: Progress, fetch_offset: int, leader_end: int, now: Any) -> None:
        on_fetch(self, max(fetch_offset, self.log_end_offset), leader_end, now)

    return note_most


def _cut_without_looking(self: Fetcher, role: Any, diverging: EpochEndOffset, now: Any) -> None:
    self._core.log.truncate_to(min(diverging.end_offset, self._core.log.log_end_offset))


def _never_follow_a_leader(self: Follower, request: Any, *, log_is_fresh: bool) -> VoteDecision:
    """A pre-vote is granted though the leader is there."""
    return VoteDecision(bool(request.pre_vote) and log_is_fresh, VoteReason.LOG_FRESH)


def _begin_at_once(become: Callable[..., None]) -> Callable[..., None]:
    """No pre-vote: a replica that misses its leader begins an epoch."""

    def become_candidate(core: QuorumCore, now: Any, cause: RoleCause) -> None:
        become(core, now, cause)
        transitions.become_candidate(core, now, cause)

    return become_candidate


SAFEGUARDS: Final = (
    of_regression(
        "r20",
        "no-committed-truncation",
        "cutting committed metadata by a wrong word",
        (Fetcher, "_truncate", _cut_without_looking),
    ),
    of_regression(
        "r20",
        "snapshots-for-those-behind",
        "a voter that can never rejoin, because the log no longer reaches back",
        (FetchServer, "_snapshot_for", lambda *_: None),
    ),
    of_regression(
        "r20",
        "claims-may-fall",
        "counting a voter for what it had before its disk was wiped",
        (Progress, "on_fetch", _remember_the_most(Progress.on_fetch)),
    ),
    of_regression(
        "r40",
        "followers-refuse-pre-votes",
        "a voter that takes the leadership from a leader whom all others follow",
        (Follower, "decide_vote", _never_follow_a_leader),
    ),
    of_regression(
        "r40",
        "pre-vote",
        "a voter that comes back with a higher epoch and deposes the leader",
        (transitions, "become_prospective", _begin_at_once(transitions.become_prospective)),
    ),
    of_quorum(
        "durable-before-counted-leader",
        "committing what a majority has not flushed",
        (QuorumCore, "durable_end_offset", property(lambda core: core.log.log_end_offset)),
    ),
    of_quorum(
        "durable-before-counted-follower",
        "claiming what is not flushed",
        (Fetcher, "may_fetch", True),
    ),
    of_regression(
        "s01",
        "durable-votes",
        "voting twice in an epoch",
        (QuorumStateFile, "maybe_write", _hasty_write(QuorumStateFile.maybe_write)),
    ),
    of_regression(
        "s14",
        "lost-votes-are-noticed",
        "voting twice in an epoch, without the file that says how it voted",
        (QuorumStateFile, "require", staticmethod(lambda disk: disk.make_dir(_METADATA))),
    ),
    of_regression(
        "s11",
        "quorum-divergence",
        "two histories of the metadata",
        (FetchServer, "_diverging_epoch", lambda *_: None),
    ),
    of_quorum(
        "majority",
        "two leaders in an epoch",
        (Ballot, "is_won", property(lambda ballot: bool(ballot.granting))),
    ),
    of_quorum(
        "own-epoch-first",
        "committing what a later leader may cut",
        (Leader, "maybe_raise_high_watermark", _commit_any_epoch),
    ),
    of_regression(
        "s08",
        "votes-for-fresh-logs",
        "a leader that lacks committed metadata",
        *((role, "decide_vote", _blind_vote(role.decide_vote)) for role in _ROLES),
    ),
)
"""Of votes and of the metadata log."""

"""Safeguards of the metadata quorum, and what the quorum is without them."""

from collections.abc import Callable
from typing import Any, Final

from tidelog.kraft.core import QuorumCore
from tidelog.kraft.fetch_server import FetchServer
from tidelog.kraft.fetcher import Fetcher
from tidelog.kraft.leader import Leader
from tidelog.kraft.quorum_state import QuorumStateFile
from tidelog.kraft.roles import Ballot, Role, Unattached
from tidelog.sim.ablations.safeguard import of_quorum


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


def _blind_vote(decide: Callable[..., Any]) -> Callable[..., Any]:
    """A vote that does not look at the candidate's log."""
    return lambda self, request, *, log_is_fresh: decide(self, request, log_is_fresh=True)


_ROLES: Final[tuple[Any, ...]] = (Unattached, *Role.__subclasses__())

SAFEGUARDS: Final = (
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
    of_quorum(
        "durable-votes",
        "voting twice in an epoch",
        (QuorumStateFile, "maybe_write", _hasty_write(QuorumStateFile.maybe_write)),
    ),
    of_quorum(
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
    of_quorum(
        "votes-for-fresh-logs",
        "a leader that lacks committed metadata",
        *((role, "decide_vote", _blind_vote(role.decide_vote)) for role in _ROLES),
    ),
)
"""Of votes and of the metadata log."""

"""Safeguards of the metadata quorum, and what the quorum is without them."""

from typing import Any, Final

from tidelog.kraft import roles, transitions
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.events import RoleCause, VoteReason
from tidelog.kraft.fetch_server import FetchServer
from tidelog.kraft.fetcher import Fetcher
from tidelog.kraft.leader import Leader, Progress
from tidelog.kraft.quorum_state import QuorumStateFile
from tidelog.model import METADATA_PARTITION, EpochEndOffset
from tidelog.sim.ablations.safeguard import Original, guard, guard_of_quorum


def _commit_any_epoch(leader: Leader) -> bool:
    majority_end = leader.majority_end_offset()
    if majority_end <= leader.high_watermark:
        return False
    leader.high_watermark = majority_end
    return True


def _hasty_write(write: Original, file: QuorumStateFile, *args: Any) -> Any:
    """A promise counts when its write is merely on its way."""
    written = write(file, *args)
    file.on_durable(file.sequence)
    return written


def _blind_vote(decide: Original, self: Any, request: Any, *, log_is_fresh: bool) -> Any:
    """A vote that does not look at the candidate's log."""
    return decide(self, request, log_is_fresh=True)


_METADATA: Final = str(METADATA_PARTITION)


def _remember_the_most(on_fetch: Original, self: Progress, offset: int, *rest: Any) -> None:
    """A voter has whatever it ever claimed."""
    on_fetch(self, max(offset, self.log_end_offset), *rest)


def _cut_without_looking(self: Fetcher, role: Any, diverging: EpochEndOffset, now: Any) -> None:
    self._core.log.truncate_to(min(diverging.end_offset, self._core.log.log_end_offset))


def _never_follow_a_leader(
    self: roles.Follower, request: Any, *, log_is_fresh: bool
) -> roles.VoteDecision:
    """A pre-vote is granted though the leader is there."""
    return roles.VoteDecision(bool(request.pre_vote) and log_is_fresh, VoteReason.LOG_FRESH)


def _begin_at_once(become: Original, core: QuorumCore, now: Any, cause: RoleCause) -> None:
    """No pre-vote: a replica that misses its leader begins an epoch."""
    become(core, now, cause)
    transitions.become_candidate(core, now, cause)


SAFEGUARDS: Final = (
    guard("r20", "no-committed-truncation", "cutting committed metadata by a wrong word").replaced(
        Fetcher, "_truncate", _cut_without_looking
    ),
    guard(
        "r20",
        "snapshots-for-those-behind",
        "a voter that can never rejoin, because the log no longer reaches back",
    ).replaced(FetchServer, "_snapshot_for", lambda *_: None),
    guard(
        "r20", "claims-may-fall", "counting a voter for what it had before its disk was wiped"
    ).wrapped(Progress, "on_fetch", _remember_the_most),
    guard(
        "r40",
        "followers-refuse-pre-votes",
        "a voter that takes the leadership from a leader whom all others follow",
    ).replaced(roles.Follower, "decide_vote", _never_follow_a_leader),
    guard(
        "r40", "pre-vote", "a voter that comes back with a higher epoch and deposes the leader"
    ).wrapped(transitions, "become_prospective", _begin_at_once),
    guard_of_quorum(
        "durable-before-counted-leader", "committing what a majority has not flushed"
    ).replaced(QuorumCore, "durable_end_offset", property(lambda core: core.log.log_end_offset)),
    guard_of_quorum("durable-before-counted-follower", "claiming what is not flushed").replaced(
        Fetcher, "may_fetch", True
    ),
    guard("s01", "durable-votes", "voting twice in an epoch").wrapped(
        QuorumStateFile, "maybe_write", _hasty_write
    ),
    guard(
        "s14",
        "lost-votes-are-noticed",
        "voting twice in an epoch, without the file that says how it voted",
    ).replaced(QuorumStateFile, "require", staticmethod(lambda disk: disk.make_dir(_METADATA))),
    guard("s11", "quorum-divergence", "two histories of the metadata").replaced(
        FetchServer, "_diverging_epoch", lambda *_: None
    ),
    guard_of_quorum("majority", "two leaders in an epoch").replaced(
        roles.Ballot, "is_won", property(lambda ballot: bool(ballot.granting))
    ),
    guard_of_quorum("own-epoch-first", "committing what a later leader may cut").replaced(
        Leader, "maybe_raise_high_watermark", _commit_any_epoch
    ),
    guard("s08", "votes-for-fresh-logs", "a leader that lacks committed metadata")
    .wrapped(roles.Unattached, "decide_vote", _blind_vote)
    .wrapped(roles.Follower, "decide_vote", _blind_vote)
    .wrapped(roles.Prospective, "decide_vote", _blind_vote)
    .wrapped(roles.Candidate, "decide_vote", _blind_vote)
    .wrapped(roles.Resigned, "decide_vote", _blind_vote),
)
"""Of votes and of the metadata log."""

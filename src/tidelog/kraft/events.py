"""The events of the metadata quorum: roles and votes, doubts about the leader, the metadata log,
its snapshots and its voters.

A change of role has a *cause* (`RoleCause`): a member of `RoleReason`, and the replica or the votes
that it is about. The values of reasons are the text of the line, with the name of a field where
the line has a number.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from tidelog.env.event import Event, Level, event
from tidelog.errors import ErrorCode

SUBJECT: Final = "quorum"
"""What events and lines of this package are about."""


@event()
class QuorumEvent(Event):
    """An event about this replica of the metadata log."""

    subject: ClassVar = SUBJECT


# Roles ---------------------------------------------------------------------------------------


class RoleReason(StrEnum):
    """Why a replica changes its role."""

    NAMED_BY_PEER = "learnt from {peer_id}"
    NAMED_BY_LEADER = "learnt from the leader"
    LEADER_ANNOUNCED = "the leader announced itself"
    LEADER_SILENT = "leader {peer_id} is silent"
    NO_LEADER = "no leader is known"
    NO_STATE = "it lacks what a leader needs"
    VOTE_ASKED = "vote request from {peer_id}"
    VOTED = "voted for {peer_id}"
    PRE_VOTE_WON = "pre-vote won with {granted_count} of {voter_count}"
    PRE_VOTE_LOST = "pre-vote lost with {granted_count} of {voter_count}"
    PRE_VOTE_TIMED_OUT = "pre-vote timed out with {granted_count} of {voter_count}"
    PRE_VOTE_UNKNOWN = "voter {peer_id} does not support pre-votes"
    ELECTED = "elected by {granted_count} of {voter_count}"
    ELECTION_TIMED_OUT = "election timed out with {granted_count} of {voter_count}"
    ASKED_TO_RESIGN = "resignation requested"
    MAJORITY_SILENT = "a majority does not fetch"
    REMOVED = "removed from the voters"
    RESTED = "waited after resigning"


@dataclass(frozen=True, slots=True)
class RoleCause:
    """Why a role changes: the reason, and the replica or the number of votes that it is about."""

    reason: RoleReason
    peer_id: int = -1
    """-1 where no other replica is the cause."""
    granted_count: int = 0
    """Votes granted, of `voter_count`; 0 where no vote is the cause."""
    voter_count: int = 0

    def __str__(self) -> str:
        return self.reason.format(
            peer_id=self.peer_id, granted_count=self.granted_count, voter_count=self.voter_count
        )


@event()
class RoleEvent(QuorumEvent):
    """The replica has this role now."""

    epoch: int
    leader: int
    """-1 where it knows of none."""
    voted: int
    """The candidate that has its vote in this epoch; -1 for none."""
    log_end: int
    high_watermark: int


@event("start", about=("role",))
class RoleAtStart(RoleEvent):
    """The role in which a process begins."""

    role: str

    @property
    def decision(self) -> str:
        """The role."""
        return self.role


@event(about=("cause",))
class RoleChanged(RoleEvent):
    """One role follows another; each role has its own class."""

    cause: RoleCause

    @property
    def reason(self) -> RoleReason:
        """The reason alone."""
        return self.cause.reason

    def why(self) -> str:
        """The reason with its numbers."""
        return str(self.cause)


@event("become_unattached", "unattached")
class BecameUnattached(RoleChanged):
    """It follows no leader."""


@event("become_follower", "follower")
class BecameFollower(RoleChanged):
    """It fetches from the leader."""


@event("become_prospective", "prospective")
class BecameProspective(RoleChanged):
    """It asks for pre-votes."""


@event("become_candidate", "candidate")
class BecameCandidate(RoleChanged):
    """It asks for votes in a new epoch."""


@event("become_leader", "leader")
class BecameLeader(RoleChanged):
    """It leads the epoch."""


@event("become_resigned", "resigned")
class BecameResigned(RoleChanged):
    """It has given up the epoch and reports that to the voters."""


# Votes and doubts ----------------------------------------------------------------------------


class VoteReason(StrEnum):
    """Why a vote is granted or refused. The last group are errors, by their Kafka names."""

    LOG_FRESH = "log is fresh"
    LOG_STALE = "log is stale"
    VOTED_FOR_OTHER = "voted for {peer_id}"
    VOTED_FOR_ITSELF = "voted for itself"
    LEADER_KNOWN = "leader is {peer_id}"
    FOLLOWING = "following {peer_id}"
    LEADING = "leading"
    LOST_RECORDS = "this voter lost records that it acknowledged"

    INCONSISTENT_CLUSTER_ID = ErrorCode.INCONSISTENT_CLUSTER_ID.name
    INCONSISTENT_VOTER_SET = ErrorCode.INCONSISTENT_VOTER_SET.name
    INVALID_REQUEST = ErrorCode.INVALID_REQUEST.name
    INVALID_VOTER_KEY = ErrorCode.INVALID_VOTER_KEY.name
    FENCED_LEADER_EPOCH = ErrorCode.FENCED_LEADER_EPOCH.name


@event("on_vote_request", about=("peer_id",))
class VoteAnswered(QuorumEvent):
    """A voter answers a candidate."""

    reason: VoteReason
    peer_id: int
    """The replica that the reason names; -1 for none."""
    candidate: int
    pre_vote: bool
    epoch: int
    last_epoch: int
    """Of the candidate's log, with `last_offset`."""
    last_offset: int

    def why(self) -> str:
        """The reason with its number."""
        return self.reason.format(peer_id=self.peer_id)


@event(decision="granted")
class VoteGranted(VoteAnswered):
    """The candidate has the vote."""


@event(decision="refused")
class VoteRefused(VoteAnswered):
    """The candidate does not get the vote."""


class DoubtReason(StrEnum):
    """Why a follower takes its leader for gone."""

    SUSPECTED_DEAD = "suspected dead"
    NEVER_REACHED = "never reached"
    NOT_LEADER_OR_FOLLOWER = ErrorCode.NOT_LEADER_OR_FOLLOWER.name
    BROKER_NOT_AVAILABLE = ErrorCode.BROKER_NOT_AVAILABLE.name


@event("doubt_leader", "doubts")
class LeaderDoubted(QuorumEvent):
    """A follower grants pre-votes from now on and asks for votes soon."""

    reason: DoubtReason
    leader: int
    epoch: int


@event("on_end_request", "doubts")
class LeaderResigned(QuorumEvent):
    """A follower has received the leader's resignation."""

    reason: ClassVar = "the leader resigned"

    leader: int
    epoch: int
    ask_in_ms: int
    """When it asks for votes itself, as the leader has ranked it."""


# The log -------------------------------------------------------------------------------------


@event("on_fetch", "diverging")
class FetchDiverged(QuorumEvent):
    """The leader has found where a follower's log parts from its own."""

    replica: int
    fetch_offset: int
    last_fetched_epoch: int
    epoch_end: tuple[int, ...]
    """The epoch and the offset from which the follower must look for common ground."""


@event("truncate", "truncated")
class LogTruncated(QuorumEvent):
    """A follower has cut records that its leader does not have."""

    reason: ClassVar = "diverged from the leader"

    to: int
    log_end: int
    """Before the cut."""
    leader: int
    epoch: int


@event("on_fetch_response", "votes again", level=Level.WARN)
class VotesAgain(QuorumEvent):
    """A replica that had lost acknowledged records has all that is committed again."""

    reason: ClassVar = "it has all that is committed"

    log_end: int
    high_watermark: int


class CleaningReason(StrEnum):
    """Why the oldest snapshot is kept no longer."""

    TOO_LARGE = "{value} bytes, {limit} are kept"
    TOO_OLD = "{value} ms old, {limit} are kept"
    UNREADABLE = "unreadable: {fault}"


@dataclass(frozen=True, slots=True)
class CleaningCause:
    """Why, with the numbers."""

    reason: CleaningReason
    value: int = 0
    """Bytes or ms, as the reason says; `limit` is what the configuration keeps."""
    limit: int = 0
    fault: str = ""
    """What is wrong with a snapshot that cannot be read."""

    def __str__(self) -> str:
        return self.reason.format(value=self.value, limit=self.limit, fault=self.fault)


@event("clean", "cleaned")
class LogCleaned(QuorumEvent):
    """The log begins at the second oldest snapshot, which is the oldest now."""

    reason: CleaningCause
    log_start: int
    segments: int
    """Below it, whose files go one after the other."""


# Snapshots -----------------------------------------------------------------------------------


@event("on_flushed", "snapshot made")
class SnapshotMade(QuorumEvent):
    """A snapshot of this node's own state counts."""

    snapshot: str
    bytes: int


@event("on_fetch", "referred to a snapshot")
class FetcherReferred(QuorumEvent):
    """The leader has answered a fetch with a snapshot's name."""

    replica: int
    fetch_offset: int
    last_fetched_epoch: int
    snapshot: str
    log_start: int


@event("install", "installed")
class SnapshotInstalled(QuorumEvent):
    """The leader's snapshot has taken the place of this replica's state."""

    snapshot: str
    records: int
    log_start: int
    log_end: int


@event("load", "put aside", level=Level.ERROR, about=("path", "fault", "kept_as"))
class SnapshotPutAside(QuorumEvent):
    """A damaged snapshot counts no more."""

    path: str
    fault: str
    kept_as: str

    def why(self) -> str:
        """With what the operator can do."""
        return (
            f"`{self.path}` is damaged: {self.fault}; hint: an older snapshot or the leader's is "
            f"used; check the disk, and delete `{self.kept_as}` when it is not needed any more"
        )


# Voters --------------------------------------------------------------------------------------


@event("on_voters", "voters")
class VotersChanged(QuorumEvent):
    """Another voter set counts."""

    reason: str
    """Where it is from: an offset, a snapshot, or the former set after a truncation."""
    kraft_version: int
    voters: tuple[int, ...]
    is_voter: bool


@event("on_voter_change", "refused")
class VoterChangeRefused(QuorumEvent):
    """The leader does not begin a change of the voter set."""

    reason: str
    """The message that the client receives."""
    code: str
    asked: str
    voter: int


@event("on_voter_change", "ended")
class VoterChangeEnded(QuorumEvent):
    """A change of the voter set is committed, or the leader has given it up."""

    reason: str
    """The message that the client receives; empty for a change that is committed."""
    code: str
    step: str

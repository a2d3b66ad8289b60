"""The messages between voters and what the quorum hands to its node: plain, version-free values.

The wire forms (Vote 2, BeginQuorumEpoch 1, EndQuorumEpoch 1, Fetch 18) are in `kraft/codec.py`.
A quorum has one partition only, `__cluster_metadata-0`, so the values carry no topic.

Replication is pull (KIP-595): `QuorumFetchRequest` is the vote of confidence, the acknowledgement
and the request for data in one. A fetch at offset X means "everything below X is on my disk".

Every response names the leader and the epoch its sender knows, also with an error: that is how a
voter that was away learns of the leader.

Changes of the voter set (KIP-853) are `AddVoterRequest` and its kin.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidelog.env.disk import Buffer
from tidelog.env.effects import Chunk
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.model import NO_LEADER, ZERO_UUID, Endpoint, EpochEndOffset, Uuid

UNKNOWN_HIGH_WATERMARK: Final = -1
"""A fetcher that knows no high watermark yet: any is news."""


class NotLeader(ProtocolError):
    """Only the leader of the quorum appends."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)


# Replicas ----------------------------------------------------------------------------------


class ReplicaKey(NamedTuple):
    """A replica of the metadata log. Id and directory together: a wiped disk is another one."""

    node_id: int
    directory_id: Uuid = ZERO_UUID
    """`ZERO_UUID` when it is not known."""


@dataclass(frozen=True, slots=True)
class VoterIdentity:
    """This node as a replica."""

    node_id: int
    directory_id: Uuid
    cluster_id: str
    endpoints: tuple[Endpoint, ...] = ()
    """Its own controller listeners; none for a node that is only a broker."""

    @property
    def key(self) -> ReplicaKey:
        """Id and directory."""
        return ReplicaKey(self.node_id, self.directory_id)

    def is_named(self, voter_id: int, directory_id: Uuid) -> bool:
        """Whether a request that names its receiver so, as far as it does, is for this replica."""
        if voter_id not in (-1, self.node_id):
            return False
        return directory_id in (ZERO_UUID, self.directory_id)


@dataclass(frozen=True, slots=True)
class Voter:
    """One member of the voter set."""

    node_id: int
    directory_id: Uuid
    """`ZERO_UUID` when it is not known: static voters are configured by id and address."""
    endpoints: tuple[Endpoint, ...]
    """Its controller listeners; the first one is what others dial."""
    kraft_versions: tuple[int, int] = (0, 1)
    """Lowest and highest `kraft.version` that it supports."""


class SnapshotId(NamedTuple):
    """A snapshot of the metadata log: it stands for everything below `end_offset`."""

    end_offset: int
    epoch: int
    """Of the last record below `end_offset`."""

    def __str__(self) -> str:
        return f"{self.end_offset}-{self.epoch}"


NO_SNAPSHOT: Final = SnapshotId(-1, -1)
"""Of an answer without a snapshot."""


# Requests and responses --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QuorumResponse:
    """What every response between replicas says; accepted when `error_code` is NONE."""

    error_code: ErrorCode
    leader_id: int
    leader_epoch: int
    leader_endpoint: Endpoint | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """Asks for a vote, or (KIP-996) whether a vote would be given."""

    cluster_id: str | None
    voter_id: int
    """The receiver; -1 when the sender does not name it."""
    voter_directory_id: Uuid
    """The receiver's; `ZERO_UUID` when the sender does not know it."""
    candidate_id: int
    candidate_directory_id: Uuid
    epoch: int
    """A real vote: the new epoch. A pre-vote: the epoch the sender is in."""
    last_epoch: int
    """The epoch of the sender's last record, 0 when its log is empty."""
    last_offset: int
    """The sender's log end offset (exclusive, whatever the wire calls it)."""
    pre_vote: bool


@dataclass(frozen=True, slots=True)
class VoteResponse(QuorumResponse):
    """Granted or not."""

    granted: bool = False


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochRequest:
    """A new leader makes itself known to voters that have not fetched from it."""

    cluster_id: str | None
    voter_id: int
    voter_directory_id: Uuid
    leader_id: int
    leader_epoch: int
    leader_endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochResponse(QuorumResponse):
    """A voter knows that the epoch has begun."""


@dataclass(frozen=True, slots=True)
class EndQuorumEpochRequest:
    """A leader resigns and names its successors, the most caught-up voter first."""

    cluster_id: str | None
    leader_id: int
    leader_epoch: int
    preferred_candidates: tuple[ReplicaKey, ...]
    leader_endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class EndQuorumEpochResponse(QuorumResponse):
    """A voter knows that the epoch has ended."""


@dataclass(frozen=True, slots=True)
class QuorumFetchRequest:
    """Asks for the metadata log from `fetch_offset` on, and acknowledges everything below it."""

    cluster_id: str | None
    replica_id: int
    replica_directory_id: Uuid
    epoch: int
    """The quorum epoch of the sender (`currentLeaderEpoch` on the wire)."""
    fetch_offset: int
    """The sender's durable log end offset."""
    last_fetched_epoch: int
    """The epoch of the record before `fetch_offset`, 0 when the log is empty."""
    high_watermark: int
    """What the sender believes; the leader answers at once when its own is higher. At
    `wire.fetch.FETCH_ANY_HIGH_WATERMARK` (a sender older than version 18) it never is."""
    max_wait_ms: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class QuorumFetchResponse(QuorumResponse):
    """Records, or where the logs part (`diverging_epoch`), or an error."""

    high_watermark: int = UNKNOWN_HIGH_WATERMARK
    log_start_offset: int = -1
    diverging_epoch: EpochEndOffset | None = None
    records: tuple[Chunk, ...] = ()
    """Whole record batches."""
    records_bytes: int = 0
    snapshot_id: SnapshotId | None = None
    """What to fetch instead: the log does not begin where the fetcher would need it."""


@dataclass(frozen=True, slots=True)
class FetchSnapshotRequest:
    """Asks for a snapshot's bytes from `position` on."""

    cluster_id: str | None
    replica_id: int
    replica_directory_id: Uuid
    epoch: int
    """The quorum epoch of the sender (`currentLeaderEpoch` on the wire)."""
    snapshot_id: SnapshotId
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FetchSnapshotResponse(QuorumResponse):
    """Bytes of a snapshot, cut anywhere, or an error."""

    snapshot_id: SnapshotId = NO_SNAPSHOT
    size_bytes: int = 0
    """Of the whole snapshot."""
    position: int = 0
    """Where `data` begins."""
    data: Buffer = b""


@dataclass(frozen=True, slots=True)
class AddVoterRequest:
    """An operator, or the replica itself, asks to add a voter (KIP-853)."""

    cluster_id: str | None
    voter: Voter
    waits_for_commit: bool = True
    """Whether the answer comes when the new set is committed, or when it is appended."""
    timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class RemoveVoterRequest:
    """An operator asks to remove a voter."""

    cluster_id: str | None
    voter: ReplicaKey
    timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class UpdateVoterRequest:
    """A voter sends the leader its addresses and the versions that it supports."""

    cluster_id: str | None
    current_leader_epoch: int
    voter: Voter


@dataclass(frozen=True, slots=True)
class VoterChangeResponse:
    """The answer to a change of the voter set. Only the answer to an update has leader and
    epoch."""

    error_code: ErrorCode
    message: str = ""
    leader_id: int = NO_LEADER
    leader_epoch: int = -1
    leader_endpoint: Endpoint | None = None


@dataclass(frozen=True, slots=True)
class SupportRequest:
    """Asks a replica which versions of the quorum's protocol it knows (ApiVersions)."""

    replica: ReplicaKey


@dataclass(frozen=True, slots=True)
class SupportResponse:
    """The range of `kraft.version`; `None` when the replica has no such feature."""

    error_code: ErrorCode
    kraft_versions: tuple[int, int] | None = None


NamesLeader = QuorumResponse | BeginQuorumEpochRequest | EndQuorumEpochRequest
VoterChangeRequest = AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest
Request = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | QuorumFetchRequest
    | FetchSnapshotRequest
    | VoterChangeRequest
    | SupportRequest
)
Response = QuorumResponse | VoterChangeResponse | SupportResponse

# What the quorum hands out -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Send this to a peer; answered by `on_response(peer_id, request, response, now)`, with
    `None` for the response when the connection failed or was lost."""

    peer_id: int
    """A node id; below -1 a bootstrap server, of which only the address is known."""
    request: Request
    endpoint: Endpoint
    """Where to send it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request that came in with this `reply_to`."""

    reply_to: object
    response: Response


Output = SendRequest | Reply


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """One record batch below the high watermark."""

    base_offset: int
    last_offset: int
    """Inclusive."""
    epoch: int
    append_time_ms: int
    """Wall time at which the leader appended it."""
    records: list[bytes]
    """The values, in offset order; of a control batch too."""
    is_control: bool
    """LEADER_CHANGE and its kin: nothing for the state machine except an offset that passes."""
    size_bytes: int = 0
    """Of the batch in the log."""


@dataclass(frozen=True, slots=True)
class LoadedSnapshot:
    """The state below `snapshot_id.end_offset`: it takes the place of whatever was handed out
    before."""

    snapshot_id: SnapshotId
    append_time_ms: int
    """Wall time at which the last record that it stands for was appended."""
    records: list[bytes]
    """The values, in the order in which they must be replayed on the empty state."""


Committed = CommittedBatch | LoadedSnapshot


@dataclass(frozen=True, slots=True)
class ReplicaProgress:
    """How far one replica is, as the leader sees it."""

    node_id: int
    directory_id: Uuid
    log_end_offset: int
    """Exclusive; -1 before its first fetch in this epoch."""
    last_fetch_at: Instant | None
    last_caught_up_at: Instant | None
    """When its fetch offset last reached what was the leader's log end."""


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The answer to DescribeQuorum; `voters` and `observers` are empty except on the leader."""

    leader_id: int = NO_LEADER
    leader_epoch: int = 0
    high_watermark: int = 0
    voters: tuple[ReplicaProgress, ...] = ()
    observers: tuple[ReplicaProgress, ...] = ()

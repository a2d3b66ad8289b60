"""What is asked of a group coordinator, and what it answers: plain values without versions.

Every request names its group first, but for the end of a transaction, which is for all groups of a
partition. Every request has one answer: its own result, or a `Refused`
when the coordinator could not look at it at all.
"""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.errors import ErrorCode
from tidelog.groups.consumer_group import ConsumerGroup
from tidelog.groups.consumer_records import IdPartition
from tidelog.groups.group_state import GroupState, GroupType
from tidelog.groups.records import CommittedOffset
from tidelog.groups.share_group import ShareGroup
from tidelog.model import TopicId, TopicPartition
from tidelog.records.control import EndTxnMarker
from tidelog.rsm.coordinator import Refused

NO_MEMBER = ""
"""The member id of a client that has none yet, or that is not a member."""
NO_GENERATION = -1


# Membership --------------------------------------------------------------------------------


class GroupProtocol(NamedTuple):
    """One way of assigning that a member supports, and what it says about itself for it."""

    name: str
    metadata: bytes


class JoinGroup(NamedTuple):
    """API 11: to be a member of the next generation."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[GroupProtocol, ...]
    """The one that the member prefers comes first."""
    requires_member_id: bool = True
    """Whether a new member gets its id in an answer of its own (KIP-394, version 4 and up)."""
    may_skip_assignment: bool = True
    """Whether a leader understands that it need not assign (KIP-814, version 9 and up)."""


class JoinedMember(NamedTuple):
    """A member as the leader of its group sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinGroupResult(NamedTuple):
    """The new generation; only its leader gets to know the members."""

    error_code: ErrorCode
    member_id: str = NO_MEMBER
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = NO_MEMBER
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncGroup(NamedTuple):
    """API 14: the assignment of a generation, from its leader to each member."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    """`None`: not checked (before version 5)."""
    protocol_name: str | None
    assignments: tuple[tuple[str, bytes], ...]
    """(member id, assignment), from the leader only."""


class SyncGroupResult(NamedTuple):
    """What is assigned to the member."""

    error_code: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class Heartbeat(NamedTuple):
    """API 12: the member is alive."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None


class HeartbeatResult(NamedTuple):
    """REBALANCE_IN_PROGRESS asks the member to join again."""

    error_code: ErrorCode


class Leaver(NamedTuple):
    """A member that leaves, by its id, or a static one by its instance id alone."""

    member_id: str
    group_instance_id: str | None = None


class LeaveGroup(NamedTuple):
    """API 13: members leave at once."""

    group_id: str
    leavers: tuple[Leaver, ...]


class LeaveGroupResult(NamedTuple):
    """What became of each of them, in the order of the request."""

    error_code: ErrorCode
    leavers: tuple[tuple[Leaver, ErrorCode], ...] = ()


# Consumer groups ---------------------------------------------------------------------------


def everything(_: str) -> bool:
    """Without an authorizer every topic may be described."""
    return True


class ConsumerGroupHeartbeat(NamedTuple):
    """API 68: a member of a consumer group is there, and says what has changed; `None` is
    unchanged."""

    group_id: str
    member_id: str
    member_epoch: int
    """The one it received; 0 joins, -1 leaves, -2 leaves for a while (static members)."""
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    held: tuple[IdPartition, ...] | None = None
    """The partitions that it uses."""
    must_name_itself: bool = True
    """Whether clients make their member ids themselves (version 1 and up)."""
    may_describe: Callable[[str], bool] = everything
    """Whether the member may describe a topic: its regular expression matches no other."""

    @property
    def is_full(self) -> bool:
        """Whether it says everything, so that it wants to receive everything."""
        subscribes = self.topic_names is not None or self.regex is not None
        return self.rebalance_timeout_ms != -1 and subscribes and self.held is not None


class ConsumerGroupHeartbeatResult(NamedTuple):
    """What the member has from now on."""

    error_code: ErrorCode
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assigned: tuple[IdPartition, ...] | None = None
    """`None` is unchanged."""


class DescribeConsumerGroup(NamedTuple):
    """API 69: what has each member of a consumer group, and what shall it have?"""

    group_id: str


class DescribeConsumerGroupResult(NamedTuple):
    """One group, as it is committed."""

    error_code: ErrorCode
    group: ConsumerGroup | None = None
    assignor: str = ""
    error_message: str | None = None


# Share groups ------------------------------------------------------------------------------


class ShareGroupHeartbeat(NamedTuple):
    """API 76: a member of a share group is there, and says what has changed; `None` is
    unchanged."""

    group_id: str
    member_id: str
    member_epoch: int
    """The one it received; 0 joins, -1 leaves."""
    client_id: str
    client_host: str
    rack_id: str | None = None
    topic_names: tuple[str, ...] | None = None


class WantedStates(NamedTuple):
    """States of share partitions that share coordinators must initialise, or delete."""

    group_id: str
    state_epoch: int
    partitions: tuple[tuple[IdPartition, int], ...]
    """With the offset from which the group is to read; -1 leaves it to the configuration."""


class ShareGroupHeartbeatResult(NamedTuple):
    """What the member has from now on."""

    error_code: ErrorCode
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assigned: tuple[IdPartition, ...] | None = None
    """`None` is unchanged."""
    wanted: WantedStates | None = None
    """To be initialised, and reported with `StatesInitialized`."""


class StatesInitialized(NamedTuple):
    """Share coordinators have answered: these share partitions have a state, or none of them."""

    group_id: str
    partitions: tuple[IdPartition, ...]
    is_done: bool = True


class StatesResult(NamedTuple):
    """It is written down."""

    error_code: ErrorCode = ErrorCode.NONE


class AlterShareOffsets(NamedTuple):
    """API 91: from where the group reads on."""

    group_id: str
    partitions: tuple[tuple[IdPartition, int], ...]
    knows_topics: bool = True
    """Whether the request is about a topic that exists."""


class DeleteShareOffsets(NamedTuple):
    """API 92: forget how far the group has come in these topics."""

    group_id: str
    topics: tuple[TopicId, ...]


class ShareOffsetsResult(NamedTuple):
    """What share coordinators have to do for it; `None` with an error."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    wanted: WantedStates | None = None


class StatesDeleted(NamedTuple):
    """Share coordinators have forgotten these topics."""

    group_id: str
    topics: tuple[TopicId, ...]


class DescribeShareGroup(NamedTuple):
    """API 77: what has each member of a share group, and who are they?"""

    group_id: str


class DescribeShareGroupResult(NamedTuple):
    """One group, as it is committed."""

    error_code: ErrorCode
    group: ShareGroup | None = None
    error_message: str | None = None


# Offsets -----------------------------------------------------------------------------------


class CommitOffsets(NamedTuple):
    """API 8: a group has read up to there."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    offsets: tuple[tuple[TopicPartition, CommittedOffset], ...]
    """The coordinator sets the time of the commit."""
    may_name_epoch: bool = True
    """Whether the client knows of member epochs and GROUP_ID_NOT_FOUND (version 9 and up)."""


class CommitOffsetsResult(NamedTuple):
    """Of each partition, in the order of the request."""

    partitions: tuple[tuple[TopicPartition, ErrorCode], ...]


class CommitInTransaction(NamedTuple):
    """API 28: a commit that counts when the producer's transaction commits."""

    group_id: str
    producer_id: int
    producer_epoch: int
    commit: CommitOffsets


class EndTransaction(NamedTuple):
    """API 27: a transaction has ended, and what waits for it counts or is dropped."""

    producer_id: int
    producer_epoch: int
    marker: EndTxnMarker
    bumps_epoch: bool
    """Whether the epoch is that of the producer's next transaction."""


class EndTransactionResult(NamedTuple):
    """The marker is committed."""

    error_code: ErrorCode = ErrorCode.NONE


class FetchOffsets(NamedTuple):
    """API 9: up to where has a group read? `None`: all partitions."""

    group_id: str
    partitions: tuple[TopicPartition, ...] | None
    require_stable: bool = False
    """Whether to say nothing about offsets that an open transaction may move."""
    member_id: str | None = None
    """Of a member of a consumer group, which is then checked."""
    member_epoch: int = NO_GENERATION


class FetchOffsetsResult(NamedTuple):
    """In the order of the request; `None` where nothing is committed."""

    offsets: tuple[tuple[TopicPartition, CommittedOffset | None], ...]
    unstable: frozenset[TopicPartition] = frozenset()
    """Those that an open transaction may move, if that was asked; they have no offset here."""


class DeleteOffsets(NamedTuple):
    """API 47: forget how far a group has read."""

    group_id: str
    partitions: tuple[TopicPartition, ...]


class DeleteOffsetsResult(NamedTuple):
    """Of each partition, in the order of the request; none when the whole is refused."""

    error_code: ErrorCode
    partitions: tuple[tuple[TopicPartition, ErrorCode], ...] = ()


# Administration ----------------------------------------------------------------------------


class ListedGroup(NamedTuple):
    """A group in the answer to ListGroups (API 16)."""

    group_id: str
    protocol_type: str
    state: GroupState
    group_type: GroupType = GroupType.CLASSIC


class DescribeGroup(NamedTuple):
    """API 15: what is the group doing, and who is in it?"""

    group_id: str


class DescribedMember(NamedTuple):
    """A member; what it says of itself is empty unless the group is stable."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


class DescribeGroupResult(NamedTuple):
    """One group."""

    error_code: ErrorCode
    state: GroupState
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()


class DeleteGroup(NamedTuple):
    """API 42: forget a group without members."""

    group_id: str
    are_states_deleted: bool = False
    """Of a share group: whether the share coordinators know nothing of it any more."""


class DeleteGroupResult(NamedTuple):
    """What became of it."""

    error_code: ErrorCode
    wanted: WantedStates | None = None
    """To be deleted first; then the request comes again."""


Request = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | ConsumerGroupHeartbeat
    | ShareGroupHeartbeat
    | StatesInitialized
    | AlterShareOffsets
    | DeleteShareOffsets
    | StatesDeleted
    | CommitOffsets
    | CommitInTransaction
    | EndTransaction
    | FetchOffsets
    | DeleteOffsets
    | DescribeGroup
    | DescribeConsumerGroup
    | DescribeShareGroup
    | DeleteGroup
)
Result = (
    JoinGroupResult
    | SyncGroupResult
    | HeartbeatResult
    | LeaveGroupResult
    | ConsumerGroupHeartbeatResult
    | ShareGroupHeartbeatResult
    | StatesResult
    | ShareOffsetsResult
    | CommitOffsetsResult
    | EndTransactionResult
    | FetchOffsetsResult
    | DeleteOffsetsResult
    | DescribeGroupResult
    | DescribeConsumerGroupResult
    | DescribeShareGroupResult
    | DeleteGroupResult
)
Response = Result | Refused

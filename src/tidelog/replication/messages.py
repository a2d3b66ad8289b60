"""What enters and leaves the replication package, besides the Fetch and Produce values of `wire`.

The package takes and gives version-free values only. The broker resolves topic names and ids before
it asks, and maps the proposals, queries and results below to the entities of the wire.

Outputs are in the order in which they were decided. `Send*` outputs go to another node and
are answered, exactly once each, by the `on_*_response` method of `Replicas` that takes the same
token; a peer that cannot be reached is answered with `None`. `Reply` answers a request that was
handed in with its `reply_to`, exactly once.
"""

from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

from tidelog.config import LogConfig
from tidelog.errors import ErrorCode
from tidelog.metadata.partition_changes import IsrMember as IsrMember
from tidelog.metadata.partition_changes import IsrResult as IsrResult
from tidelog.metadata.partition_changes import ReplicaDirectory as ReplicaDirectory
from tidelog.model import EpochEndOffset, TopicId, TopicPartition, Uuid
from tidelog.records.control import EndTxnMarker
from tidelog.wire.fetch import FetchRequest, FetchResponse
from tidelog.wire.produce import ProduceResponse

ReplyTo = Hashable
"""The broker's own handle of a request; opaque here."""

Token = int
"""Ties the answer of a peer to what was sent; never used twice by one `Replicas`."""

LogConfigs = Callable[[str], LogConfig]
"""Topic name to the configuration that its logs obey."""

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP: Final = -6
"""Special timestamps of ListOffsets (API 2)."""

TO_HIGH_WATERMARK: Final = -1
"""The special offset of DeleteRecords (API 21)."""

# Questions and answers ---------------------------------------------------------------------


class TruncationsAnnounced(NamedTuple):
    """Subject of a checkpoint of recovery points: when it is durable, logs may be cut below the
    recovery points that they had before."""

    number: int


LogStart = tuple[TopicPartition, TopicId, int]
"""Where a log starts."""


class LogStartsSaved(NamedTuple):
    """Subject of a checkpoint of log starts: when it is durable, segments below them may go."""

    directory_id: Uuid
    """Where the checkpoint is: a log that has moved since has another."""
    starts: tuple[LogStart, ...]


class RecordsToDelete(NamedTuple):
    """Up to where (exclusive) the records of a partition are to go (DeleteRecords, API 21)."""

    topic: str
    partition: int
    offset: int
    """`TO_HIGH_WATERMARK`: all that is committed."""


class DeletedRecords(NamedTuple):
    """What became of one `RecordsToDelete`."""

    topic: str
    partition: int
    error_code: ErrorCode
    low_watermark: int = -1
    """The lowest log start of the alive replicas; -1 where it is not known here."""


class DeleteRecordsResult(NamedTuple):
    """The answer to a DeleteRecords, in the order of the request."""

    partitions: list[DeletedRecords]


class ListOffsetsQuery(NamedTuple):
    """Which offset belongs to a timestamp, or to one of the special timestamps above."""

    topic: str
    partition: int
    current_leader_epoch: int
    """The epoch the sender believes in; -1 skips the check."""
    timestamp: int


class ListOffsetsResult(NamedTuple):
    """The answer to one query; offset and timestamp are -1 when nothing was found."""

    topic: str
    partition: int
    error_code: ErrorCode
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


class EpochEndQuery(NamedTuple):
    """Where does `leader_epoch` end in the leader's log (OffsetForLeaderEpoch, API 23)."""

    topic: str
    partition: int
    current_leader_epoch: int
    leader_epoch: int


class EpochEndResult(NamedTuple):
    """The answer to one `EpochEndQuery`; undefined ends are (-1, -1)."""

    topic: str
    partition: int
    error_code: ErrorCode
    end: EpochEndOffset


class AlterPartitionProposal(NamedTuple):
    """The ISR that a leader asks the controller to commit for one partition."""

    topic_partition: TopicPartition
    topic_id: TopicId
    leader_epoch: int
    partition_epoch: int
    new_isr: tuple[IsrMember, ...]
    recovering: bool
    """The leader recovery state to commit: `False` is RECOVERED."""


class TransactionalProducer(NamedTuple):
    """Whose transaction it is."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    bumps_epoch: bool
    """Whether it is of transaction version 2: leaders add the partitions for it (KIP-890)."""


class MarkerToWrite(NamedTuple):
    """The end of a transaction in one partition (WriteTxnMarkers, API 27)."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    marker: EndTxnMarker
    bumps_epoch: bool
    """Whether the epoch is that of the producer's next transaction."""


class ActiveProducer(NamedTuple):
    """A producer as a log knows it (DescribeProducers, API 61)."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class ProducersOf(NamedTuple):
    """The producers of one partition."""

    topic: str
    partition_index: int
    error_code: ErrorCode
    active_producers: tuple[ActiveProducer, ...] = ()


# Outputs -----------------------------------------------------------------------------------


class Reply(NamedTuple):
    """The answer to a Produce, Fetch or DeleteRecords. For acks=0 the broker writes nothing, but
    closes the connection when a partition failed."""

    reply_to: ReplyTo
    response: ProduceResponse | FetchResponse | DeleteRecordsResult


class SendFetch(NamedTuple):
    """Fetch from a partition leader; answered through `on_fetch_response`."""

    leader_id: int
    token: Token
    request: FetchRequest


class VerifyTransaction(NamedTuple):
    """Ask the transaction coordinator whether a partition is in a producer's transaction, or to add
    it; answered through `on_transaction_verified`."""

    token: Token
    topic_partition: TopicPartition
    producer: TransactionalProducer


class SendListOffsets(NamedTuple):
    """Ask a partition leader for offsets, as a replica; answered through
    `on_list_offsets_response`."""

    leader_id: int
    token: Token
    queries: tuple[ListOffsetsQuery, ...]


class SendAlterPartition(NamedTuple):
    """Ask the active controller for ISR changes; answered through
    `on_alter_partition_response`. At most one is under way."""

    token: Token
    broker_epoch: int
    proposals: tuple[AlterPartitionProposal, ...]


class SendAssignReplicas(NamedTuple):
    """Report to the active controller where replicas are; answered through
    `on_assign_replicas_response`. At most one is under way."""

    token: Token
    broker_epoch: int
    assignments: tuple[ReplicaDirectory, ...]


class LogDirFailed(NamedTuple):
    """The device failed under a log: the partition is offline, and the node must react."""

    topic_partition: TopicPartition
    error: str


class DirectoryOffline(NamedTuple):
    """One of several log directories is offline: its replicas are, and the controller must know."""

    directory_id: Uuid
    root: str
    error: str


Output = (
    Reply
    | SendFetch
    | VerifyTransaction
    | SendListOffsets
    | SendAlterPartition
    | SendAssignReplicas
    | LogDirFailed
    | DirectoryOffline
)

"""All replicas that one broker hosts: the room's front door."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from tidelog.config import LogConfig, ReplicationConfig
from tidelog.env.instant import Instant
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode
from tidelog.model import NO_EPOCH, TopicId, TopicPartition
from tidelog.replication.messages import (
    AlterPartitionResult,
    EpochEndQuery,
    EpochEndResult,
    ListOffsetsQuery,
    ListOffsetsResult,
    Output,
    PartitionView,
    ReplyTo,
    Token,
)
from tidelog.wire.fetch import FetchRequest, FetchResponse
from tidelog.wire.produce import ProduceRequest

if TYPE_CHECKING:
    from tidelog.log.log import Log, LogFlush
    from tidelog.metadata.delta import MetadataDelta
    from tidelog.metadata.image import MetadataImage


class LogStore(Protocol):
    """What replication needs of a log directory; `log.directory.LogDirectory` is one."""

    @property
    def logs(self) -> "dict[TopicPartition, Log]":
        """The open logs, the metadata log included."""

    def create(
        self, topic_partition: TopicPartition, topic_id: TopicId, config: LogConfig
    ) -> "Log":
        """Makes and opens an empty log."""

    def schedule_delete(self, topic_partition: TopicPartition) -> None:
        """Takes a log out of service and marks its directory for deletion."""

    def checkpoint_high_watermarks(self) -> None:
        """Emits the write of `replication-offset-checkpoint`."""

    def checkpoint_recovery_points(self) -> None:
        """Emits the write of `recovery-point-offset-checkpoint`."""

    def checkpoint_log_start_offsets(self) -> None:
        """Emits the write of `log-start-offset-checkpoint`."""


class Replicas:
    """Leaders, followers, fetchers, purgatories and ISR updates of one broker."""

    def __init__(
        self, *, node_id: int, directory: LogStore, config: ReplicationConfig, trace: Trace
    ) -> None:
        self.node_id = node_id
        # Set by the node after each registration; goes into fetches and AlterPartition.
        self.broker_epoch = NO_EPOCH

    def apply(
        self,
        delta: "MetadataDelta",
        image: "MetadataImage",
        log_configs: Callable[[str], LogConfig],
        now: Instant,
    ) -> None:
        """Follows the metadata: creates, opens and deletes logs, changes roles and configs.
        Called after each group of committed metadata batches, in order."""
        raise NotImplementedError

    def remove_strays(self, image: "MetadataImage", now: Instant) -> None:
        """Schedules the deletion of logs that the metadata does not place on this node. Called
        once after a start, when the image has caught up with the node's own registration."""
        raise NotImplementedError

    def produce(
        self, request: ProduceRequest, reply_to: ReplyTo, now: Instant, wall_ms: int
    ) -> None:
        """Appends; the `Reply` follows, at once or when the high watermark has passed."""
        raise NotImplementedError

    def append_batch(
        self, topic_partition: TopicPartition, batch: bytes, now: Instant, wall_ms: int
    ) -> int:
        """Appends one built batch of a coordinator living here; returns its last offset. It is
        committed once `high_watermark(topic_partition)` is larger. Raises `ProtocolError`."""
        raise NotImplementedError

    def fetch(
        self,
        request: FetchRequest,
        reply_to: ReplyTo,
        now: Instant,
        *,
        followers_may_serve: bool = True,
    ) -> None:
        """Reads, as a replica when `request.replica_id >= 0`, else as a consumer.
        `followers_may_serve` is false for consumers below version 11. The broker has turned
        sessions into full partition lists; it patches session id and epoch itself."""
        raise NotImplementedError

    def list_offsets(
        self,
        queries: Sequence[ListOffsetsQuery],
        *,
        replica_id: int,
        isolation_level: int,
    ) -> list[ListOffsetsResult]:
        """Answers ListOffsets at once. OFFSET_NOT_AVAILABLE is for version 5 and up; the
        handler turns it into LEADER_NOT_AVAILABLE below."""
        raise NotImplementedError

    def end_offsets_for_epochs(self, queries: Sequence[EpochEndQuery]) -> list[EpochEndResult]:
        """Answers OffsetForLeaderEpoch at once."""
        raise NotImplementedError

    def on_fetch_response(self, token: Token, response: FetchResponse | None, now: Instant) -> None:
        """The answer to a `SendFetch`; `None` when the leader could not be reached."""
        raise NotImplementedError

    def on_list_offsets_response(
        self, token: Token, results: Sequence[ListOffsetsResult] | None, now: Instant
    ) -> None:
        """The answer to a `SendListOffsets`."""
        raise NotImplementedError

    def on_alter_partition_response(
        self,
        token: Token,
        results: Sequence[AlterPartitionResult] | ErrorCode | None,
        now: Instant,
    ) -> None:
        """The answer to a `SendAlterPartition`: a result for each partition, or the error of
        the whole request, or `None` when no controller could be reached."""
        raise NotImplementedError

    def on_flushed(self, subject: "LogFlush", now: Instant) -> None:
        """A flush of a hosted log is durable."""
        raise NotImplementedError

    def on_flush_failed(self, subject: "LogFlush", error: str, now: Instant) -> None:
        """A flush failed: what was not yet durable is taken to be lost."""
        raise NotImplementedError

    def end_tick(self, now: Instant) -> None:
        """Completes what this tick's inputs made ready and sends the next fetches. Called once
        after each group of inputs."""
        raise NotImplementedError

    def wake(self, now: Instant) -> None:
        """Runs what is due: ISR checks, expiries, backoffs, checkpoints. Ends the tick too."""
        raise NotImplementedError

    def deadline(self) -> Instant | None:
        """The next instant at which `wake` has something to do."""
        raise NotImplementedError

    def take_outputs(self) -> list[Output]:
        """What was decided since the last call, in order."""
        raise NotImplementedError

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """The high watermark of a hosted replica, -1 when it is not hosted."""
        raise NotImplementedError

    def describe(self, now: Instant) -> list[PartitionView]:
        """Every hosted partition, ordered by topic and partition."""
        raise NotImplementedError

    def check(self) -> None:
        """Asserts every invariant of the room."""
        raise NotImplementedError

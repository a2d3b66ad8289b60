"""One replica's log of one partition, as other packages see it.

A log is its state (`state.py`, which also moves the log start) and the operations on it. Each
concern is a module of functions over the state:

| module | job |
| --- | --- |
| `appending` | the append paths of leaders and followers |
| `reading`, `lookup` | reads from the disk, records by time, aborted transactions |
| `truncation` | dropping the end of the log, or all of it |
| `rolling`, `flushing` | sealing segments; what is not durable yet |
| `loading`, `recovery`, `replacement` | opening a log, and what a crash left of it |

Source: KIP-98, KIP-101, KIP-1123; Kafka's `UnifiedLog` and `LocalLog`; Ongaro, Raft §3.
"""

from tidelog.config import LogConfig
from tidelog.env.disk import Buffer
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.log import appending, reading, rolling, truncation
from tidelog.log.state import LogState
from tidelog.log.values import (
    AppendOrigin,
    AppendResult,
    FollowerAppend,
    LogFlush,
    LogRead,
    TimestampedOffset,
)
from tidelog.model import EpochEndOffset, TopicId
from tidelog.wire.fetch import AbortedTransaction


class Log(LogState):
    """One replica of one partition; made by `LogDirectory` (or `loading.open_log`).

    Its state and what can be done with it. The fields are for the modules of this package to write;
    others read the offsets and set `announced_end`.
    """

    __slots__ = ()

    def reconfigure(self, config: LogConfig) -> None:
        """Applies another configuration from the next append on."""
        self.config = config
        if "compact" in config.cleanup_policy:
            for segment in self.segments:
                segment.batches.contiguous = False

    # Offsets and epochs ----------------------------------------------------------------------

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments' log files."""
        return self.segments.size_bytes

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch of the log; -1 for none."""
        return self.epochs.latest_epoch

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> bool:
        """Notes that a leader epoch starts at `start_offset`: a new leader's first step."""
        return self.epochs.assign(leader_epoch, start_offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        """The largest epoch at or below the given one and where it ends here."""
        return self.epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch that wrote `offset`; -1 when unknown."""
        return self.epochs.epoch_at(offset)

    # Appending -------------------------------------------------------------------------------

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        wall_ms: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendResult:
        """Validates, stamps and appends exactly one batch. A duplicate of an idempotent producer is
        not appended; the result has the offsets of the first append.

        Raises `ProtocolError` (`InvalidRecords` lists the refused records where it can) and leaves
        the log untouched, or `StorageError`. `records` is not kept.
        """
        return appending.append_as_leader(self, records, leader_epoch, wall_ms, origin)

    def append_records(
        self,
        batch: bytes,
        leader_epoch: int,
        wall_ms: int,
        *,
        origin: AppendOrigin = AppendOrigin.COORDINATOR,
    ) -> AppendResult:
        """Appends a batch of our own making (coordinators, quorum): stamped, not validated."""
        assert origin is not AppendOrigin.CLIENT, "client batches go through append_as_leader"
        return self.append_as_leader(batch, leader_epoch, wall_ms, origin=origin)

    def append_as_follower(self, records: Buffer, max_epoch: int) -> FollowerAppend:
        """Appends whole batches as the leader sent them, offsets and epochs included.

        A cut last batch is ignored. From the first batch with an epoch above `max_epoch` (the one
        in which the fetch was made) everything is skipped: it belongs to a leadership that this
        replica has not yet reconciled with (KAFKA-18723).

        Raises `CorruptBatch`, with nothing appended, when a batch is damaged or does not lie at
        or above the log end. The exception of Kafka holds: an empty log takes a first batch that
        contains its log end, and then begins at that batch.
        """
        return appending.append_as_follower(self, records, max_epoch)

    # Reading ---------------------------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, upper_offset: int, *, at_least_one: bool
    ) -> LogRead:
        """Whole batches from the one that holds `offset`, all below `upper_offset`.

        At most `max_bytes`, but with `at_least_one` the first batch comes whole whatever its size.
        Raises OFFSET_OUT_OF_RANGE below the log start or above the log end, `LogDamaged` when the
        disk gives other bytes than were written.
        """
        log_end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= log_end_offset:
            raise ProtocolError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset `{offset}` is not within {self.log_start_offset} to {log_end_offset}",
            )
        upper_offset = min(upper_offset, log_end_offset)
        if offset >= upper_offset:
            return LogRead([], 0, offset, offset)
        cached = self.tail.read(offset, max_bytes, upper_offset, at_least_one)
        if cached is not None:
            return cached
        return reading.read_segments(self, offset, max_bytes, upper_offset, at_least_one)

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first record at or after `timestamp`; `None` when all are older.

        Raises `LogDamaged`.
        """
        return reading.offset_for_timestamp(self, timestamp)

    def max_timestamp(self) -> TimestampedOffset | None:
        """The first record with the largest timestamp; `None` in an empty log.

        Raises `LogDamaged`.
        """
        return reading.max_timestamp(self)

    def aborted_in(self, start: int, upper: int) -> list[AbortedTransaction]:
        """Aborted transactions that touch [start, upper), ascending by their abort."""
        return reading.aborted_in(self, start, upper)

    def verify(self) -> None:
        """Reads every batch. Raises `LogDamaged` at the first that is not what was written."""
        reading.verify(self)

    # Truncation ------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Drops everything from `offset` on; returns whether records were dropped.

        Going below the high watermark is allowed: a deposed leader's view may have been ahead.
        """
        return truncation.truncate_to(self, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Empties the log and makes it begin at `offset`, all its offsets included.

        For followers below their leader's log start and for replicas restored from a snapshot.
        """
        truncation.truncate_fully_and_start_at(self, offset)

    @property
    def truncation_count(self) -> int:
        """How often the log was cut, in this process."""
        return self.ledger.truncation_count

    def continue_after(self, truncation_count: int) -> None:
        """Continues the truncation count of the `Log` object that it replaces."""
        self.ledger.begin_after(truncation_count)

    # Rolling and durability ------------------------------------------------------------------

    def assign_topic_id(self, topic_id: TopicId) -> None:
        """Writes `partition.metadata`; for a new log or one whose file was lost."""
        rolling.assign_topic_id(self, topic_id)

    def request_flush(self) -> int:
        """Emits `Flush` effects for everything not yet durable; returns the offset they cover.

        When nothing is left to flush none is emitted: then an earlier request covers it, or the
        recovery point has arrived already.
        """
        return rolling.request_flush(self)

    def on_flushed(self, subject: LogFlush) -> None:
        """Moves the recovery point; look at `recovery_point` afterwards.

        Only the last answer of a group counts, and none that was requested before a truncation.
        """
        if subject.topic_id == self.topic_id:
            durable = self.ledger.answered(subject)
            if durable is not None:
                self.recovery_point = max(self.recovery_point, durable)

    def prepare_close(self) -> None:
        """Writes indexes and a producer snapshot for a clean stop, and requests the flush."""
        rolling.prepare_close(self)

    def close(self) -> None:
        """Releases all files; the log must not be used any more."""
        for segment in self.segments:
            segment.close()
        self.ledger.close()
        self.tail.clear()
        self.failure = "the log is closed"

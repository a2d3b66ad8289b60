"""One replica's log of one partition, as other packages see it.

The state is in `state.py`. Each concern is a module over it:

| module | job |
| --- | --- |
| `appending` | the append paths of leaders and followers |
| `reading`, `lookup` | reads from the disk, records by time, aborted transactions |
| `truncation` | dropping the end of the log, or all of it |
| `rolling`, `flushing` | sealing segments; what is not durable yet |
| `deletion` | the log start, and the segments below it |
| `loading`, `recovery`, `replacement` | opening a log, and what a crash left of it |

Source: KIP-98, KIP-101, KIP-1123; Kafka's `UnifiedLog` and `LocalLog`; Ongaro, Raft §3.
"""

from tidelog.config import LogConfig
from tidelog.env.disk import Buffer
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.log import appending, deletion, reading, rolling, truncation
from tidelog.log.segment import Segment
from tidelog.log.state import UNCUT, LogState
from tidelog.log.values import (
    AppendOrigin,
    AppendResult,
    FollowerAppend,
    LogFlush,
    LogRead,
    TimestampedOffset,
)
from tidelog.model import EpochEndOffset, TopicId, TopicPartition
from tidelog.wire.fetch import AbortedTransaction


class Log:
    """One replica of one partition; made by `LogDirectory` (or `loading.open_log`)."""

    def __init__(self, state: LogState) -> None:
        self._state = state
        # Parts of the state that are never replaced; read more often than anything else.
        self._tail = state.tail
        self.epochs = state.epochs
        self.producers = state.producers

    # Identity and offsets --------------------------------------------------------------------

    @property
    def topic_partition(self) -> TopicPartition:
        """Which partition it is a replica of."""
        return self._state.topic_partition

    @property
    def topic_id(self) -> TopicId:
        """From `partition.metadata`; `ZERO_TOPIC_ID` when that file was lost."""
        return self._state.topic_id

    @property
    def config(self) -> LogConfig:
        """What applies from the next append on; may be replaced at any time."""
        return self._state.config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._state.config = config
        if "compact" in config.cleanup_policy:
            for segment in self._state.segments:
                segment.batches.contiguous = False

    @property
    def path(self) -> str:
        """The partition's directory below the disk's root."""
        return self._state.path

    @property
    def log_start_offset(self) -> int:
        """First offset still served, inclusive."""
        return self._state.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """Next offset to write, exclusive end of the log."""
        return self._state.log_end_offset

    @property
    def high_watermark(self) -> int:
        """Exclusive end of the committed prefix, as far as this replica knows."""
        return self._state.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Exclusive end for read_committed readers."""
        return self._state.last_stable_offset

    @property
    def recovery_point(self) -> int:
        """Exclusive: everything below it is durable."""
        return self._state.recovery_point

    @property
    def announced_end(self) -> int:
        """Where the log is about to be cut; checkpoints claim nothing above it."""
        return self._state.announced_end

    @announced_end.setter
    def announced_end(self, offset: int) -> None:
        self._state.announced_end = offset

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments' log files."""
        return self._state.segments.size_bytes

    @property
    def segments(self) -> list[Segment]:
        """The segments, oldest first; a copy of the list."""
        return list(self._state.segments)

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch of the log; -1 for none."""
        return self.epochs.latest_epoch

    def update_high_watermark(self, value: int) -> bool:
        """Sets it, clamped to [log start, log end]; returns whether it changed."""
        return self._state.update_high_watermark(value)

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> bool:
        """Notes that a leader epoch starts at `start_offset`: a new leader's first step."""
        return self.epochs.assign(leader_epoch, start_offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        """The largest epoch at or below the given one and where it ends here."""
        return self.epochs.end_offset_for(leader_epoch, self._state.log_end_offset)

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
        """Validates, stamps and appends exactly one batch.

        Raises `ProtocolError` (`InvalidRecords` lists the refused records where it can) and leaves
        the log untouched, or `StorageError`. `records` is not kept.
        """
        return appending.append_as_leader(self._state, records, leader_epoch, wall_ms, origin)

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
        return appending.append_as_follower(self._state, records, max_epoch)

    # Reading ---------------------------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, upper_offset: int, *, at_least_one: bool
    ) -> LogRead:
        """Whole batches from the one that holds `offset`, all below `upper_offset`.

        At most `max_bytes`, but with `at_least_one` the first batch comes whole whatever its size.
        Raises OFFSET_OUT_OF_RANGE below the log start or above the log end, `LogDamaged` when the
        disk gives other bytes than were written.
        """
        state = self._state
        log_end_offset = state.log_end_offset
        if not state.log_start_offset <= offset <= log_end_offset:
            raise ProtocolError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset `{offset}` is not within {state.log_start_offset} to {log_end_offset}",
            )
        upper_offset = min(upper_offset, log_end_offset)
        if offset >= upper_offset:
            return LogRead([], 0, offset, offset)
        cached = self._tail.read(offset, max_bytes, upper_offset, at_least_one)
        if cached is not None:
            return cached
        return reading.read_segments(state, offset, max_bytes, upper_offset, at_least_one)

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first record at or after `timestamp`; `None` when all are older.

        Raises `LogDamaged`.
        """
        return reading.offset_for_timestamp(self._state, timestamp)

    def max_timestamp(self) -> TimestampedOffset | None:
        """The first record with the largest timestamp; `None` in an empty log.

        Raises `LogDamaged`.
        """
        return reading.max_timestamp(self._state)

    def aborted_in(self, start: int, upper: int) -> list[AbortedTransaction]:
        """Aborted transactions that touch [start, upper), ascending by their abort."""
        return reading.aborted_in(self._state, start, upper)

    def verify(self) -> None:
        """Reads every batch. Raises `LogDamaged` at the first that is not what was written."""
        reading.verify(self._state)

    # Truncation and deletion -----------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Drops everything from `offset` on; returns whether records were dropped.

        Going below the high watermark is allowed: a deposed leader's view may have been ahead.
        """
        return truncation.truncate_to(self._state, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Empties the log and makes it begin at `offset`, all its offsets included.

        For followers below their leader's log start and for replicas restored from a snapshot.
        """
        truncation.truncate_fully_and_start_at(self._state, offset)

    @property
    def truncation_count(self) -> int:
        """How often the log was cut, in this process."""
        return self._state.ledger.truncation_count

    def continue_after(self, truncation_count: int) -> None:
        """An earlier object of this log was given up in this process, after so many cuts."""
        self._state.ledger.begin_after(truncation_count)

    def maybe_raise_log_start_offset(self, value: int) -> bool:
        """Raises the log start (DeleteRecords, or the leader's on a follower).

        Nothing above the high watermark may go: raises OFFSET_OUT_OF_RANGE.
        """
        return deletion.maybe_raise_log_start_offset(self._state, value)

    def delete_segments_below_start(self, limit: int = UNCUT) -> int:
        """Deletes the segments that end at or below the log start and the limit; returns how many.
        The active one stays."""
        return deletion.delete_segments_below_start(self._state, limit)

    # Rolling and durability ------------------------------------------------------------------

    def assign_topic_id(self, topic_id: TopicId) -> None:
        """Writes `partition.metadata`; for a new log or one whose file was lost."""
        rolling.assign_topic_id(self._state, topic_id)

    def request_flush(self) -> int:
        """Emits `Flush` effects for everything not yet durable; returns the offset they cover.

        When nothing is left to flush none is emitted: then an earlier request covers it, or the
        recovery point has arrived already.
        """
        return rolling.request_flush(self._state)

    def on_flushed(self, subject: LogFlush) -> None:
        """Moves the recovery point; look at `recovery_point` afterwards.

        Only the last answer of a group counts, and none that was requested before a truncation.
        """
        state = self._state
        if subject.topic_id == state.topic_id:
            durable = state.ledger.answered(subject)
            if durable is not None:
                state.recovery_point = max(state.recovery_point, durable)

    def prepare_close(self) -> None:
        """Writes indexes and a producer snapshot for a clean stop, and requests the flush."""
        rolling.prepare_close(self._state)

    def close(self) -> None:
        """Releases all files; the log must not be used any more."""
        for segment in self._state.segments:
            segment.close()
        self._state.ledger.close()
        self._tail.clear()
        self._state.failure = "the log is closed"

    def check(self) -> None:
        """Asserts every invariant of this log."""
        self._state.check()

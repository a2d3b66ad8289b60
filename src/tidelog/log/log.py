"""One replica's log of one partition: append, read, truncate, and the offsets that bound it.

Four offsets describe a log, all "next offset" style:

    log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset

Records below the high watermark are committed; a leader computes it and followers are told. The
last stable offset bounds readers that want only decided transactions. A fifth, the recovery
point, says how far the log is known to be durable.

Leaders append one batch at a time and stamp it (`append_as_leader`); followers append what leaders
sent, unchanged (`append_as_follower`). Both write the file with one call, then take the batch into
indexes, epoch cache, producer state and tail cache. Everything that can refuse a batch is asked
before the write; what follows the write cannot fail, except by the device.

Durability is asynchronous: `request_flush` emits `Flush` effects, and their answers
(`on_flushed`) move the recovery point. A truncation in between voids them. Sealing a segment
writes its indexes and a producer snapshot and requests a flush by itself.

Invariants
- LogContiguity: segments are ordered, each covers offsets from its base up to the next base.
- Offsets of batches strictly increase; a hole can only come from compaction on a leader.
- A failed append leaves no trace: the file is cut back by the disk, nothing else was changed. From
  then on the log raises `StorageError` for ever.

Left out: retention and compaction, which work on sealed segments through this class.

Source: KIP-98, KIP-101, KIP-1123; Kafka's `UnifiedLog` and `LocalLog`; Ongaro, Raft §3.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from tidelog.config import LogConfig
from tidelog.env.disk import Buffer, File
from tidelog.errors import CorruptBatch, ErrorCode, ProtocolError, StorageError
from tidelog.log.checkpoint import PARTITION_METADATA_FILE, encode_partition_metadata
from tidelog.log.epoch_cache import LeaderEpochCache
from tidelog.log.fetched import scan_fetched
from tidelog.log.flushing import FlushLedger
from tidelog.log.lookup import find_max_timestamp, find_timestamp
from tidelog.log.producer_state import ProducerStates
from tidelog.log.reading import look, read_segments, verify
from tidelog.log.replay import (
    drop_snapshots_above,
    read_marker_or_none,
    rebuild_producers,
    snapshot_path,
)
from tidelog.log.segment import BatchSpan, ReadWindow, Segment
from tidelog.log.tail_cache import TailCache
from tidelog.log.txn_index import AbortedTxn
from tidelog.log.validation import check_client_batch, recompress
from tidelog.log.values import (
    AppendOrigin,
    AppendResult,
    FollowerAppend,
    InvalidRecords,
    LogEnv,
    LogFlush,
    LogRead,
    TimestampedOffset,
)
from tidelog.model import NO_TIMESTAMP, EpochEndOffset, TopicId, TopicPartition
from tidelog.records.batch import (
    CONTROL_FLAG,
    BatchHeader,
    read_header,
    stamp,
    stamp_log_append_time,
)
from tidelog.records.control import EndTxnMarker, read_end_txn_marker
from tidelog.wire.fetch import AbortedTransaction

__all__ = [
    "AppendOrigin",
    "AppendResult",
    "FollowerAppend",
    "InvalidRecords",
    "LoadedLog",
    "Log",
    "LogEnv",
    "LogFlush",
    "LogRead",
    "TimestampedOffset",
]


T = TypeVar("T")

UNCUT: Final = 1 << 63
"""The end of a log that is not to be cut."""


class LoadedLog(NamedTuple):
    """The state of a log as loading found or made it."""

    segments: list[Segment]
    """At least one, ascending."""
    epochs: LeaderEpochCache
    producers: ProducerStates
    snapshot_offsets: set[int]
    """Offsets of the producer snapshots on disk."""
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    unsynced: Sequence[File] = ()
    """Files beside the segments that the first flush has to cover."""


class Log:
    """One replica of one partition; made by `LogDirectory` (or `loading.open_log`)."""

    def __init__(
        self,
        *,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: LogConfig,
        env: LogEnv,
        path: str,
        loaded: LoadedLog,
    ) -> None:
        self.topic_partition = topic_partition
        # From `partition.metadata`; `ZERO_TOPIC_ID` when that file was lost.
        self.topic_id = topic_id
        # What applies from the next append on; may be replaced at any time.
        self._config = config
        # Which epoch wrote which offsets; persisted by its own effects.
        self.epochs = loaded.epochs
        # Sequences and transactions; persisted by snapshots, rebuilt from the log.
        self.producers = loaded.producers
        # Exclusive: everything below it is durable. Moved by `on_flushed`, lowered by truncation.
        self.recovery_point = loaded.log_end_offset
        # Where the log is about to be cut, as long as whoever cuts it says so; checkpoints claim
        # nothing above it.
        self.announced_end = UNCUT
        self._env = env
        # The partition's directory below the disk's root.
        self._path = path
        # Ascending by base offset; the last one is active. Never empty.
        self._segments = loaded.segments
        # Base offsets of the same segments, for bisection.
        self._bases = [segment.base_offset for segment in loaded.segments]
        # First offset served, inclusive; only ever rises, except by truncation below it.
        self._log_start_offset = loaded.log_start_offset
        # Next offset to write.
        self._log_end_offset = loaded.log_end_offset
        # Exclusive end of what is known to be committed; checkpointed by the directory.
        self._high_watermark = loaded.high_watermark
        # Offsets of the producer snapshots on disk.
        self._snapshot_offsets = loaded.snapshot_offsets
        # The newest batches, as written.
        self._tail = TailCache(budget=env.tails)
        # What is not durable yet.
        self._ledger = FlushLedger(topic_partition, env.effects)
        self._ledger.add(*loaded.unsynced)
        # Why the log takes no more writes; set when memory and file can no longer agree.
        self._failure: str | None = None

    # Offsets ---------------------------------------------------------------------------------

    @property
    def config(self) -> LogConfig:
        """What applies from the next append on; may be replaced at any time."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        if "compact" in config.cleanup_policy:
            for segment in self._segments:
                segment.contiguous = False

    @property
    def path(self) -> str:
        """The partition's directory below the disk's root."""
        return self._path

    @property
    def log_start_offset(self) -> int:
        """First offset still served, inclusive."""
        return self._log_start_offset

    @property
    def log_end_offset(self) -> int:
        """Next offset to write, exclusive end of the log."""
        return self._log_end_offset

    @property
    def high_watermark(self) -> int:
        """Exclusive end of the committed prefix, as far as this replica knows."""
        return self._high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Exclusive end for read_committed readers."""
        unstable = self.producers.first_unstable_offset
        if unstable is None or unstable >= self._high_watermark:
            return self._high_watermark
        return max(unstable, self._log_start_offset)

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch of the log; -1 for none."""
        return self.epochs.latest_epoch

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments' log files."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def segments(self) -> list[Segment]:
        """The segments, oldest first; a copy of the list."""
        return list(self._segments)

    def update_high_watermark(self, value: int) -> bool:
        """Sets it, clamped to [log start, log end]; returns whether it changed."""
        clamped = max(self._log_start_offset, min(value, self._log_end_offset))
        if clamped == self._high_watermark:
            return False
        self._high_watermark = clamped
        self.producers.on_high_watermark(clamped)
        return True

    def maybe_raise_log_start_offset(self, value: int) -> bool:
        """Raises the log start (DeleteRecords, or the leader's on a follower).

        Nothing above the high watermark may go: raises OFFSET_OUT_OF_RANGE.
        """
        if value <= self._log_start_offset:
            return False
        if value > self._high_watermark:
            raise ProtocolError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"log start `{value}` would pass the high watermark `{self._high_watermark}`",
            )
        self._log_start_offset = value
        self.epochs.truncate_from_start(value)
        return True

    def delete_segments_below_start(self, limit: int = UNCUT) -> int:
        """Deletes the segments that end at or below the log start and the limit; returns how many.
        The active one stays."""
        keep = bisect_right(self._bases, min(limit, self._log_start_offset)) - 1
        doomed = self._segments[: max(0, keep)]
        del self._segments[: len(doomed)], self._bases[: len(doomed)]
        for segment in doomed:
            segment.delete()
        for offset in sorted(self._snapshot_offsets):
            if offset < self._bases[0]:
                self._env.disk.delete(snapshot_path(self._path, offset))
                self._snapshot_offsets.discard(offset)
        return len(doomed)

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> bool:
        """Notes that a leader epoch starts at `start_offset`: a new leader's first deed."""
        return self.epochs.assign(leader_epoch, start_offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        """The largest epoch at or below the given one and where it ends here."""
        return self.epochs.end_offset_for(leader_epoch, self._log_end_offset)

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

        Raises `ProtocolError` (`InvalidRecords` lists the guilty records where it can) and leaves
        the log untouched, or `StorageError`. `records` is not kept.
        """
        config = self.config
        if origin is AppendOrigin.CLIENT:
            header = check_client_batch(records, config, wall_ms)
            if config.compression_type != "producer":
                rebuilt = recompress(records, header, config)
                if rebuilt is not None:
                    records, header = rebuilt, read_header(rebuilt)
        else:
            header = read_header(records)
            assert header.size_bytes == len(records), f"{len(records)} bytes, one batch expected"
        marker: EndTxnMarker | None = None
        if header.producer_id >= 0 and origin is not AppendOrigin.RAFT:
            if header.attributes & CONTROL_FLAG:
                marker = self._check_marker(header, records)
            else:
                earlier = self.producers.admit(header, origin)
                if earlier is not None:
                    first, last = earlier.first_offset, earlier.last_offset
                    return AppendResult(first, last, NO_TIMESTAMP, True, 0)
        return self._append_stamped(records, header, marker, leader_epoch, wall_ms)

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

    def _check_marker(self, header: BatchHeader, records: Buffer) -> EndTxnMarker | None:
        marker = read_end_txn_marker(records)
        if marker is not None:
            self.producers.check_marker(header, marker)
        return marker

    def _append_stamped(
        self,
        records: Buffer,
        header: BatchHeader,
        marker: EndTxnMarker | None,
        leader_epoch: int,
        wall_ms: int,
    ) -> AppendResult:
        assert leader_epoch >= self.epochs.latest_epoch, (
            f"{self.topic_partition}: epoch {leader_epoch} < {self.epochs.latest_epoch}"
        )
        base_offset = self._log_end_offset
        append_time_ms = NO_TIMESTAMP
        max_timestamp = header.max_timestamp
        if self.config.message_timestamp_type == "CreateTime":
            data = stamp(records, base_offset, leader_epoch)
        else:
            append_time_ms = max_timestamp = wall_ms
            data = stamp_log_append_time(records, base_offset, leader_epoch, wall_ms)
        last_offset = base_offset + header.last_offset_delta
        span = BatchSpan(base_offset, last_offset, max_timestamp, len(data))
        self._write(data, (span,), wall_ms)
        if leader_epoch != self.epochs.latest_epoch:
            self.epochs.assign(leader_epoch, base_offset)
        self._tail.append(base_offset, last_offset, data)
        self._log_end_offset = last_offset + 1
        if header.producer_id >= 0:
            self._replay_producer(header, base_offset, max_timestamp, marker)
        else:
            self.producers.map_end_offset = last_offset + 1
        return AppendResult(base_offset, last_offset, append_time_ms, False, len(data))

    def append_as_follower(self, records: Buffer, max_epoch: int) -> FollowerAppend:
        """Appends whole batches as the leader sent them, offsets and epochs included.

        A cut last batch is ignored. From the first batch with an epoch above `max_epoch` (the one
        in which the fetch was made) everything is skipped: it belongs to a leadership that this
        replica has not yet reconciled with (KAFKA-18723).

        Raises `CorruptBatch`, with nothing appended, when a batch is damaged or does not lie at
        or above the log end. The exception of Kafka holds: an empty log takes a first batch that
        contains its log end, and then begins at that batch.
        """
        found = scan_fetched(records, max_epoch)
        spans, end = found.spans, found.end
        skipped_bytes = len(records) - end
        if not spans:
            return FollowerAppend(-1, -1, 0, skipped_bytes)
        first = spans[0]
        start_offset = self._log_start_offset
        if first.base_offset < self._log_end_offset:
            self._make_room_for_first(first)
        data = memoryview(records)[:end]
        self._write(data, spans, -1)
        self._take_in(data, found.headers)
        if self._log_start_offset < start_offset:
            self.update_high_watermark(start_offset)
            self.maybe_raise_log_start_offset(start_offset)
        return FollowerAppend(first.base_offset, spans[-1].last_offset, end, skipped_bytes)

    def _make_room_for_first(self, first: BatchSpan) -> None:
        is_empty = self._log_start_offset == self._log_end_offset
        if not is_empty or first.last_offset < self._log_end_offset:
            raise CorruptBatch(
                f"fetched offset `{first.base_offset}` is below the log end "
                f"`{self._log_end_offset}`"
            )
        self.truncate_fully_and_start_at(first.base_offset)

    def _take_in(self, data: memoryview, headers: list[BatchHeader]) -> None:
        """Everything that follows the write of a follower's batches."""
        pos = 0
        for header in headers:
            size_bytes = header.size_bytes
            if header.leader_epoch >= 0 and header.leader_epoch != self.epochs.latest_epoch:
                self.epochs.assign(header.leader_epoch, header.base_offset)
            batch = bytes(data[pos : pos + size_bytes])
            last_offset = header.last_offset
            self._tail.append(header.base_offset, last_offset, batch)
            self._log_end_offset = last_offset + 1
            if header.producer_id >= 0:
                marker = read_marker_or_none(batch, header)
                self._replay_producer(header, header.base_offset, header.max_timestamp, marker)
            else:
                self.producers.map_end_offset = last_offset + 1
            pos += size_bytes

    def _replay_producer(
        self, header: BatchHeader, base_offset: int, timestamp: int, marker: EndTxnMarker | None
    ) -> None:
        aborted = self.producers.replay(header, base_offset, timestamp, marker)
        if aborted is None:
            return
        try:
            self._segments[-1].txn_index.append(aborted)
        except StorageError as error:
            # The marker is in the log but not in the index: readers would be shown aborted data.
            self._failure = str(error)
            raise

    def _write(
        self, data: Buffer, spans: "tuple[BatchSpan] | list[BatchSpan]", wall_ms: int
    ) -> None:
        """Rolls when due and writes; on `StorageError` the log is as before."""
        if self._failure is not None:
            raise StorageError(self._path, self._failure)
        active = self._segments[-1]
        try:
            if active.should_roll(
                self.config, incoming=spans[-1], wall_ms=wall_ms, size_bytes=len(data)
            ):
                active = self._roll(max(spans[0].base_offset, self._log_end_offset))
            if active.created_ms < 0:
                active.created_ms = wall_ms
            active.append(data, spans, self.config.index_interval_bytes)
        except StorageError as error:
            # Nothing may slip in between the failure and the end of this replica's service
            # (KAFKA-10778): what a device takes after an error proves nothing.
            self._failure = str(error)
            raise

    # Segments and flushing -------------------------------------------------------------------

    def roll(self) -> bool:
        """Seals the active segment unless it is empty."""
        if not self._segments[-1].size_bytes:
            return False
        self._roll(self._log_end_offset)
        return True

    def _roll(self, base_offset: int) -> Segment:
        sealed = self._segments[-1]
        if sealed.size_bytes:
            self._ledger.add(*sealed.write_indexes())
        self._write_snapshot(base_offset)
        segment = Segment(self._env.disk, self._path, base_offset, self.config)
        if not sealed.size_bytes:
            sealed.delete()
            self._segments.pop()
            self._bases.pop()
        self._segments.append(segment)
        self._bases.append(base_offset)
        self._env.trace.debug(self.topic_partition, "append", "rolled", base_offset=base_offset)
        self.request_flush()
        return segment

    def _write_snapshot(self, offset: int) -> None:
        """Writes the producer state as of `offset`, not yet durable.

        Not by a `Replace` effect: a truncation deletes snapshots at once, and a replacement that
        was still queued would bring one back that speaks of other records.
        """
        if offset in self._snapshot_offsets:
            return
        self.producers.map_end_offset = offset
        file = self._env.disk.open(snapshot_path(self._path, offset), create=True)
        file.truncate(0)
        file.append((self.producers.encode_snapshot(),))
        self._snapshot_offsets.add(offset)
        self._ledger.add(file)

    def assign_topic_id(self, topic_id: TopicId) -> None:
        """Writes `partition.metadata`; for a new log or one whose file was lost."""
        self.topic_id = topic_id
        file = self._env.disk.open(f"{self._path}/{PARTITION_METADATA_FILE}", create=True)
        file.truncate(0)
        file.append((encode_partition_metadata(topic_id),))
        self._ledger.add(file)

    def request_flush(self) -> int:
        """Emits `Flush` effects for everything not yet durable; returns the offset they cover.

        When nothing is left to flush none is emitted: then an earlier request covers it, or the
        recovery point has arrived already.
        """
        self._ledger.request(self._segments, self._log_end_offset, self.topic_id)
        return self._log_end_offset

    def on_flushed(self, subject: LogFlush) -> None:
        """Moves the recovery point; look at `recovery_point` afterwards.

        Only the last answer of a group counts, and none that was asked for before a truncation.
        """
        if subject.topic_id == self.topic_id:
            durable = self._ledger.answered(subject)
            if durable is not None:
                self.recovery_point = max(self.recovery_point, durable)

    def continue_after(self, truncation_count: int) -> None:
        """An earlier object of this log was given up in this process, after so many cuts."""
        self._ledger.begin_after(truncation_count)

    @property
    def truncation_count(self) -> int:
        """How often the log was cut, in this process."""
        return self._ledger.truncation_count

    def prepare_close(self) -> None:
        """Writes indexes and a producer snapshot for a clean stop, and requests the flush. A log
        that has none and never had records needs none."""
        if self._log_end_offset or self._ledger.truncation_count:
            self._ledger.add(*self._segments[-1].write_indexes())
            self._write_snapshot(self._log_end_offset)
        self.request_flush()

    def close(self) -> None:
        """Releases all files; the log must not be used any more."""
        for segment in self._segments:
            segment.close()
        self._ledger.close()
        self._tail.clear()
        self._failure = "the log is closed"

    # Reading ---------------------------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, upper_offset: int, *, at_least_one: bool
    ) -> LogRead:
        """Whole batches from the one that holds `offset`, all below `upper_offset`.

        At most `max_bytes`, but with `at_least_one` the first batch comes whole whatever its size.
        Raises OFFSET_OUT_OF_RANGE below the log start or above the log end, `LogDamaged` when the
        disk gives other bytes than were written.
        """
        if not self._log_start_offset <= offset <= self._log_end_offset:
            raise ProtocolError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset `{offset}` is not within {self._log_start_offset} to "
                f"{self._log_end_offset}",
            )
        upper_offset = min(upper_offset, self._log_end_offset)
        if offset >= upper_offset:
            return LogRead([], 0, offset, offset)
        cached = self._tail.read(offset, max_bytes, upper_offset, at_least_one)
        if cached is not None:
            return cached
        window = ReadWindow(upper_offset, self._log_end_offset, self.epochs)
        return self._look(
            lambda: read_segments(
                self._segments_from(offset), offset, max_bytes, window, at_least_one=at_least_one
            )
        )

    def _look(self, look_once: Callable[[], T]) -> T:
        def on_rebuilt(cause: str) -> None:
            self._env.trace.warn(self.topic_partition, "read", "index rebuilt", cause)

        return look(self._segments, self.config.index_interval_bytes, look_once, on_rebuilt)

    def _segments_from(self, offset: int) -> list[Segment]:
        """The segment that covers `offset` and all after it."""
        return self._segments[max(0, bisect_right(self._bases, offset) - 1) :]

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first record at or after `timestamp`; `None` when all are older.

        Raises `LogDamaged`.
        """
        start = self._log_start_offset
        return self._look(lambda: find_timestamp(self._segments, timestamp, start))

    def max_timestamp(self) -> TimestampedOffset | None:
        """The first record with the largest timestamp; `None` in an empty log.

        Raises `LogDamaged`.
        """
        return self._look(lambda: find_max_timestamp(self._segments, self._log_start_offset))

    def aborted_in(self, start: int, upper: int) -> list[AbortedTransaction]:
        """Aborted transactions that touch [start, upper), ascending by their abort."""
        found: list[AbortedTxn] = []
        for segment in self._segments_from(start):
            if segment.txn_index.collect(start, upper, found):
                break
        return [AbortedTransaction(txn.producer_id, txn.first_offset) for txn in found]

    def verify(self) -> None:
        """Reads every batch. Raises `LogDamaged` at the first that is not what was written."""
        verify(self._segments, self.epochs, self._log_end_offset)

    # Truncating ------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Drops everything from `offset` on; returns whether records were dropped.

        Going below the high watermark is allowed: a deposed leader's view may have been ahead.
        """
        assert offset >= 0, f"truncate to {offset}"
        if offset >= self._log_end_offset:
            # A leader that wrote nothing left an epoch that starts at its log end.
            self.epochs.truncate_from_end(self._log_end_offset)
            return False
        self._env.trace.info(
            self.topic_partition,
            "truncate_to",
            "truncated",
            offset=offset,
            log_end_offset=self._log_end_offset,
            high_watermark=self._high_watermark,
        )
        if self._segments[0].base_offset > offset:
            self.truncate_fully_and_start_at(offset)
            return True
        self._ledger.on_truncation()
        while self._segments[-1].base_offset > offset:
            self._segments.pop().delete()
            self._bases.pop()
        self._segments[-1].truncate_to(offset)
        self._tail.truncate_to(offset)
        self._log_end_offset = offset
        self._log_start_offset = min(self._log_start_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.epochs.truncate_from_end(offset)
        self._drop_snapshots_above(offset)
        if not self.producers.take_back(offset):
            self._rebuild_producers()
        self.update_high_watermark(self._high_watermark)
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Empties the log and makes it begin at `offset`, all its offsets included.

        For followers below their leader's log start and for replicas restored from a snapshot.
        """
        self._ledger.on_truncation()
        for segment in self._segments:
            segment.delete()
        self._drop_snapshots_above(-1)
        self._segments = [Segment(self._env.disk, self._path, offset, self.config)]
        self._bases = [offset]
        self._tail.clear()
        self.epochs.clear()
        self.producers.clear(offset)
        self._log_start_offset = self._log_end_offset = offset
        self._high_watermark = self.recovery_point = offset
        self._env.trace.info(
            self.topic_partition, "truncate_fully", "restarted", log_end_offset=offset
        )

    def _drop_snapshots_above(self, offset: int) -> None:
        drop_snapshots_above(self._env.disk, self._path, self._snapshot_offsets, offset)

    def _rebuild_producers(self) -> None:
        """Producer state as of the log end, after the log was cut."""
        rebuild_producers(
            self.producers,
            self._env,
            self._path,
            self._segments,
            self._snapshot_offsets,
            log_start_offset=self._log_start_offset,
            log_end_offset=self._log_end_offset,
        )
        self.producers.on_high_watermark(min(self._high_watermark, self._log_end_offset))

    # Invariants ------------------------------------------------------------------------------

    def check(self) -> None:
        """Asserts every invariant of this log."""
        name = self.topic_partition
        start, end = self._log_start_offset, self._log_end_offset
        assert start <= self.last_stable_offset, f"{name}: {start} > {self.last_stable_offset}"
        assert self.last_stable_offset <= self._high_watermark, f"{name}: stable above watermark"
        assert self._high_watermark <= end, f"{name}: {self._high_watermark} > {end}"
        assert 0 <= self.recovery_point <= end, f"{name}: recovery point {self.recovery_point}"
        assert self._bases == [segment.base_offset for segment in self._segments], f"{name}"
        assert self._bases, f"{name}: no segment"
        for index in range(len(self._bases) - 1):
            assert self._bases[index] < self._bases[index + 1], f"{name}: {self._bases}"
            assert self._segments[index].size_bytes, f"{name}: empty sealed segment"
        assert self._bases[-1] <= end, f"{name}: active segment {self._bases[-1]} above {end}"
        assert self._bases[0] <= max(start, end), f"{name}: {self._bases[0]} > {start}"
        self.epochs.check()
        assert self.epochs.latest_start_offset <= end, f"{name}: epoch starts above {end}"
        self.producers.check(end)
        self._tail.check(end)

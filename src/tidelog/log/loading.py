"""Opening one log: cleaning up what a crash left, recovery, and the offsets to start from.

After a clean stop the files are taken as they are; a segment whose index is missing or damaged
is rebuilt from its batches. After anything else every segment from the recovery point on is
recovered: batches are walked, checksums verified, indexes and epochs rebuilt. At the first bad
batch the log is cut *and all later segments are dropped*: what follows a hole is no prefix of the
leader's log. The newest segment is always recovered, also when the recovery point claims that it
is durable, because the point may be newer than a truncation that a crash undid.

Recovery trusts headers and checksums only; bodies are the producers' business.

When a log is open everything in it is durable: recovery syncs what it kept, so the recovery point
starts at the log end.

Invariants
- The log start is at least the first segment's base; a log that ends below its checkpointed start
  is emptied and begins there.
- The epoch cache covers [log start, log end) and nothing else.

Source: Kafka's `LogLoader` and `LogSegment.recover`; "Protocol-Aware Recovery" (FAST '18) for why
cutting is only right for a torn tail; deciding that is left to replication.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidelog.config import LogConfig
from tidelog.errors import CorruptBatch
from tidelog.log.checkpoint import (
    LEADER_EPOCH_FILE,
    PARTITION_METADATA_FILE,
    CheckpointDamaged,
    decode_epochs,
    decode_partition_metadata,
)
from tidelog.log.epoch_cache import LeaderEpochCache
from tidelog.log.log import LoadedLog, Log
from tidelog.log.producer_state import ProducerStates
from tidelog.log.replay import drop_snapshots_above, rebuild_producers, snapshot_path
from tidelog.log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
)
from tidelog.log.values import LogEnv
from tidelog.model import METADATA_PARTITION, ZERO_TOPIC_ID, TopicId, TopicPartition
from tidelog.records.batch import iter_headers

_DELETED: Final = ".deleted"
_CLEANED: Final = ".cleaned"
_SWAP: Final = ".swap"
_NAME_DIGITS: Final = 20
_SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


class Checkpoints(NamedTuple):
    """What the checkpoint files of the directory say of one log."""

    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0


def open_log(
    env: LogEnv,
    path: str,
    topic_partition: TopicPartition,
    config: LogConfig,
    checkpoints: Checkpoints,
    *,
    clean: bool,
    wall_ms: int,
) -> Log:
    """Opens the log in directory `path`, which exists; an empty directory is an empty log.

    Nothing of an empty directory is made durable: what a new log loses in a crash is nothing, and
    its first flush takes the directory along. Five hundred new logs would cost seconds of fsync.
    """
    topic_id = _read_topic_id(env, path)
    # The id is written before the first record and flushed with it. A log that has records and no
    # id after a power cut has nothing that anybody was promised; it may be of a topic that was
    # deleted and created again meanwhile, and taking it for the new one would mix two histories.
    nameless = not clean and topic_id == ZERO_TOPIC_ID and topic_partition != METADATA_PARTITION
    durable_end = checkpoints.recovery_point
    loader = _Loader(env, path, config, checkpoints, clean, wall_ms, nameless, durable_end)
    loaded = loader.load()
    return Log(
        topic_partition=topic_partition,
        topic_id=topic_id,
        config=config,
        env=env,
        path=path,
        loaded=loaded,
    )


def _read_topic_id(env: LogEnv, path: str) -> TopicId:
    data = env.disk.read_file(f"{path}/{PARTITION_METADATA_FILE}")
    if data is None:
        return ZERO_TOPIC_ID
    try:
        return decode_partition_metadata(data)
    except CheckpointDamaged as error:
        env.trace.warn(path, "load", "topic id unknown", str(error))
        return ZERO_TOPIC_ID


@dataclass(slots=True)
class _Loader:
    """The steps of opening one log, in order."""

    env: LogEnv
    path: str
    config: LogConfig
    checkpoints: Checkpoints
    clean: bool
    wall_ms: int
    nameless: bool
    """Whose records these are is not known: they are dropped."""
    durable_end: int
    """The recovery point as it was checkpointed: below it nothing can be missing."""
    segments: list[Segment] = field(default_factory=list)
    """Ascending by base offset."""
    rebuilt_bases: set[int] = field(default_factory=set)
    """Segments whose indexes were rebuilt."""
    snapshot_offsets: set[int] = field(default_factory=set)

    def load(self) -> LoadedLog:
        names = finish_swaps(self.env, self.path)
        self._open_segments(names)
        epochs = self._read_epochs()
        self._recover(epochs)
        log_end_offset = self._find_log_end()
        if log_end_offset < self.checkpoints.log_start_offset:
            reason = "ends below the log start"
            log_end_offset = self._restart_at(self.checkpoints.log_start_offset, reason)
        elif self.nameless and log_end_offset > self.checkpoints.log_start_offset:
            log_end_offset = self._restart_at(0, "no topic id after an unclean stop")
            self.checkpoints = Checkpoints()
        first_base = self.segments[0].base_offset
        log_start_offset = max(self.checkpoints.log_start_offset, first_base)
        epochs.truncate_from_end(log_end_offset)
        epochs.truncate_from_start(log_start_offset)
        drop_snapshots_above(self.env.disk, self.path, self.snapshot_offsets, log_end_offset)
        self._drop_stray_snapshots()
        producers = self._load_producers(log_start_offset, log_end_offset)
        if names and (self.rebuilt_bases or not self.clean):
            self._make_durable(producers, log_end_offset)
        high_watermark = max(log_start_offset, min(self.checkpoints.high_watermark, log_end_offset))
        producers.on_high_watermark(high_watermark)
        return LoadedLog(
            self.segments,
            epochs,
            producers,
            self.snapshot_offsets,
            log_start_offset,
            log_end_offset,
            high_watermark,
        )

    def _open_segments(self, names: list[str]) -> None:
        bases = sorted(_offset_of(name) for name in names if _is_kind(name, LOG_SUFFIX))
        for name in names:
            if _is_kind(name, SNAPSHOT_SUFFIX):
                self.snapshot_offsets.add(_offset_of(name))
            elif _is_segment_file(name) and _offset_of(name) not in bases:
                self.env.disk.delete(f"{self.path}/{name}")
        for base in bases or [self.checkpoints.log_start_offset]:
            self.segments.append(Segment(self.env.disk, self.path, base, self.config))

    def _read_epochs(self) -> LeaderEpochCache:
        path = f"{self.path}/{LEADER_EPOCH_FILE}"
        entries: list[tuple[int, int]] = []
        try:
            entries = decode_epochs(self.env.disk.read_file(path) or b"")
        except CheckpointDamaged as error:
            # Rebuilt from the batch headers of all segments.
            self.env.trace.warn(self.path, "load", "epochs rebuilt", str(error))
            self.clean = False
            self.checkpoints = self.checkpoints._replace(recovery_point=0)
        return LeaderEpochCache(path, self.env.effects, entries)

    def _recover(self, epochs: LeaderEpochCache) -> None:
        """Loads or rebuilds the indexes of every segment; cuts the log at the first bad batch."""
        first_unclean = self._first_unclean()
        next_base = self.segments[0].base_offset
        for index, segment in enumerate(self.segments):
            hole = self.durable_end <= next_base < segment.base_offset
            if index > first_unclean and hole:
                # A power cut took the end of the segment before and left this one, cut at a batch
                # by chance. What lies behind a hole is not the log's any more. (A compacted log
                # may have had the hole; then its leader sends these records again.)
                self._drop_from(index, f"records from {next_base} on were lost before it")
                return
            contiguous = segment.base_offset >= next_base
            if contiguous and index < first_unclean and segment.load_indexes():
                next_base = segment.base_offset
                continue
            if not contiguous:
                self._drop_from(index, "segment begins below the end of the one before")
                return
            before_bytes = segment.size_bytes
            next_base = self._rebuild(segment, epochs)
            if segment.size_bytes < before_bytes:
                lost_bytes = before_bytes - segment.size_bytes
                self.env.trace.warn(
                    self.path, "recover", "cut", "bad batch", offset=next_base, bytes=lost_bytes
                )
                self._drop_from(index + 1, "follows a bad batch")
                return

    def _first_unclean(self) -> int:
        """Index of the first segment that must be recovered."""
        if self.clean:
            return len(self.segments)
        last = len(self.segments) - 1
        covering = [
            index
            for index, segment in enumerate(self.segments)
            if segment.base_offset <= self.checkpoints.recovery_point
        ]
        return min(last, covering[-1]) if covering else 0

    def _rebuild(self, segment: Segment, epochs: LeaderEpochCache) -> int:
        self.rebuilt_bases.add(segment.base_offset)
        if not self.clean:
            # The file may be older than the log: what the headers say replaces it.
            epochs.truncate_from_end(segment.base_offset)
        next_offset = segment.base_offset
        for batch in segment.rebuild(self.config.index_interval_bytes):
            epoch = batch.header.leader_epoch
            if epoch >= 0 and epoch > epochs.latest_epoch:
                epochs.assign(epoch, batch.header.base_offset)
            next_offset = batch.header.last_offset + 1
        return next_offset

    def _drop_from(self, index: int, reason: str) -> None:
        for segment in self.segments[index:]:
            self.env.trace.warn(
                self.path, "recover", "dropped", reason, base_offset=segment.base_offset
            )
            segment.delete()
        del self.segments[index:]

    def _find_log_end(self) -> int:
        active = self.segments[-1]
        try:
            return active.next_offset()
        except CorruptBatch as error:
            # Only after a clean stop, when nothing was rebuilt: the tail is torn all the same.
            self.env.trace.warn(self.path, "load", "tail rebuilt", error.message)
            self.rebuilt_bases.add(active.base_offset)
            next_offset = active.base_offset
            for batch in active.rebuild(self.config.index_interval_bytes):
                next_offset = batch.header.last_offset + 1
            return next_offset

    def _restart_at(self, offset: int, reason: str) -> int:
        """Empties the log; it goes on at `offset`."""
        self._drop_from(0, reason)
        self.rebuilt_bases.clear()
        drop_snapshots_above(self.env.disk, self.path, self.snapshot_offsets, -1)
        self.segments.append(Segment(self.env.disk, self.path, offset, self.config))
        return offset

    def _drop_stray_snapshots(self) -> None:
        """Keeps the snapshots at segment bases, and the newest one if it lies beyond them all."""
        bases = {segment.base_offset for segment in self.segments}
        newest = max(self.snapshot_offsets, default=-1)
        for offset in sorted(self.snapshot_offsets - bases):
            if offset != newest or offset < max(bases):
                self.env.disk.delete(snapshot_path(self.path, offset))
                self.snapshot_offsets.discard(offset)

    def _load_producers(self, log_start_offset: int, log_end_offset: int) -> ProducerStates:
        producers = ProducerStates()
        rebuild_producers(
            producers,
            self.env,
            self.path,
            self.segments,
            self.snapshot_offsets,
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
            rebuilt_bases=self.rebuilt_bases,
            wall_ms=self.wall_ms,
            expiration_ms=self.config.producer_id_expiration_ms,
        )
        return producers

    def _make_durable(self, producers: ProducerStates, log_end_offset: int) -> None:
        disk = self.env.disk
        for segment in self.segments:
            if segment.base_offset not in self.rebuilt_bases:
                continue
            files = segment.write_indexes()
            for file in (*files, *segment.unsynced_files()):
                disk.sync(file)
            for file in files:
                file.close()
        identity = f"{self.path}/{PARTITION_METADATA_FILE}"
        if disk.exists(identity):
            # Records that count as durable need the topic id that says whose they are.
            file = disk.open(identity)
            disk.sync(file)
            file.close()
        if log_end_offset > 0:
            disk.replace(snapshot_path(self.path, log_end_offset), producers.encode_snapshot())
            self.snapshot_offsets.add(log_end_offset)


def finish_swaps(env: LogEnv, path: str) -> list[str]:
    """Ends a compaction or split that a crash interrupted; returns the names that remain.

    `.cleaned` files are unfinished work and go; `.swap` files are complete and take the place of
    the segments whose offsets they cover, unless an unfinished `.cleaned` of the same round shows
    that the swap had not been decided.
    """
    disk = env.disk
    names = disk.list_dir(path)
    cleaned_bases = [_offset_of(name) for name in names if name.endswith(_CLEANED)]
    swaps = [name for name in names if name.endswith(_SWAP)]
    doomed = [name for name in names if name.endswith((_DELETED, _CLEANED))]
    if cleaned_bases:
        undecided = [name for name in swaps if _offset_of(name) >= min(cleaned_bases)]
        doomed += undecided
        swaps = [name for name in swaps if name not in undecided]
    for name in swaps:
        if name.endswith(LOG_SUFFIX + _SWAP):
            doomed += _covered_by(env, path, name, names)
    for name in doomed:
        disk.delete(f"{path}/{name}")
    for name in swaps:
        disk.rename(f"{path}/{name}", f"{path}/{name.removesuffix(_SWAP)}")
    return disk.list_dir(path)


def _covered_by(env: LogEnv, path: str, swap_name: str, names: list[str]) -> list[str]:
    """Files of the segments that a swap replaces."""
    base = _offset_of(swap_name)
    data = env.disk.read_file(f"{path}/{swap_name}") or b""
    end = base + 1
    try:
        for _, header in iter_headers(data):
            end = header.last_offset + 1
    except CorruptBatch as error:
        env.trace.warn(path, "load", "swap is damaged", error.message, file=swap_name)
    return [name for name in names if _is_segment_file(name) and base <= _offset_of(name) < end]


def _is_kind(name: str, suffix: str) -> bool:
    digits = name.removesuffix(suffix)
    return name.endswith(suffix) and len(digits) == _NAME_DIGITS and digits.isdecimal()


def _is_segment_file(name: str) -> bool:
    return any(_is_kind(name, suffix) for suffix in _SEGMENT_SUFFIXES)


def _offset_of(name: str) -> int:
    digits = name[:_NAME_DIGITS]
    return int(digits) if digits.isdecimal() else -1

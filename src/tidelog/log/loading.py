"""Opening one log: cleaning up what a crash left, recovery, and the offsets to start from.

After a clean stop the files are taken as they are; a segment whose index is missing or does not fit
is rebuilt from its batches, with a warning: an index goes to the disk with the batches. After
anything else every segment from the recovery point on is recovered: batches are walked, checksums
verified, indexes and epochs rebuilt. The newest segment is always recovered, also when the recovery
point claims that it is durable, because the point may be newer than a truncation that a crash
undid.

**A torn tail is not damage.** What a crash may take and what only a failing medium takes differ by
where it is missing:
- At or above the recovery point, after an unclean stop: a torn tail. The log is cut at the first
  bad batch *and all later segments are dropped*: what follows a hole is no prefix of the leader's
  log.
- Below it, or anywhere after a clean stop: damage. These records were durable, the cluster may
  count on this replica for them, and a shorter log that says nothing could be elected and make
  everybody else cut theirs ("Protocol-Aware Recovery", FAST '18). No file is touched; `LogDamaged`
  is raised, and the replica is quarantined until replication proves where to repair it from.
- Where the recovery point itself cannot be read, everything counts as durable.

The recovery point is thus a witness that a log was longer. It errs on the safe side only: a crash
between a truncation and the checkpoint that follows it looks like damage, and costs a repair.

Recovery trusts headers and checksums only; bodies are the producers' business. The epoch checkpoint
has no checksum, so its entries are compared with the batches that they speak of.

When a log is open everything in it is durable: recovery syncs what it kept, so the recovery point
starts at the log end. Where nothing was kept nothing is synced: a node may have thousands of logs
that were never written, and would spend minutes of fsync on them. The next flush sees to their
identity, and to what a crash may have left of a cut.

Invariants
- The log start is at least the first segment's base; a log that ends below its checkpointed start
  is emptied and begins there.
- What is missing below the checkpointed log start was deleted: it is no damage.
- The epoch cache covers [log start, log end) and nothing else.

Source: Kafka's `LogLoader` and `LogSegment.recover`; Alagappan et al., FAST '18.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidelog.config import LogConfig
from tidelog.env.disk import Disk, File
from tidelog.errors import CorruptBatch, LogDamaged
from tidelog.log.checkpoint import (
    LEADER_EPOCH_FILE,
    PARTITION_METADATA_FILE,
    CheckpointDamaged,
    decode_epochs,
    decode_partition_metadata,
    encode_partition_metadata,
)
from tidelog.log.epoch_cache import LeaderEpochCache
from tidelog.log.log import LoadedLog, Log
from tidelog.log.producer_state import ProducerStates, SnapshotDamaged, decode_snapshot
from tidelog.log.replay import drop_snapshots_above, rebuild_producers, snapshot_path
from tidelog.log.segment import (
    CORRUPT_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    MISSING,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
    offset_name,
)
from tidelog.log.values import LogEnv
from tidelog.model import (
    INTERNAL_TOPICS,
    METADATA_PARTITION,
    METADATA_TOPIC_ID,
    ZERO_TOPIC_ID,
    TopicId,
    TopicPartition,
)
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
    complete: bool = True
    """Whether the recovery points could be read at all; else 0 proves nothing."""
    compacted: bool = False
    """Whether a cleaner was here: then offsets may be missing between batches."""


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

    Raises `LogDamaged`, with all files as they were, when records are missing that were durable.
    """
    topic_id = read_topic_id(env, path)
    # The id is written before the first record and flushed with it. A log that has records and no
    # id after a power cut has nothing that anybody was promised; it may be of a topic that was
    # deleted and created again meanwhile, and taking it for the new one would mix two histories.
    # The first flush is checkpointed at once, so a log without a recovery point never had any.
    was_durable = clean or not checkpoints.complete or checkpoints.recovery_point > 0
    is_metadata = topic_partition == METADATA_PARTITION
    nameless = not was_durable and topic_id == ZERO_TOPIC_ID and not is_metadata
    loader = _Loader(env, path, config, checkpoints, clean, wall_ms, nameless)
    # The head of the metadata log goes when a snapshot has taken its place, at any moment.
    loader.has_fixed_head = not is_metadata
    may_have_gaps = checkpoints.compacted or topic_partition.topic in INTERNAL_TOPICS
    loader.contiguous = not may_have_gaps and "compact" not in config.cleanup_policy
    if is_metadata and topic_id != METADATA_TOPIC_ID and env.disk.list_dir(path):
        # It is the same in every cluster.
        identity = encode_partition_metadata(METADATA_TOPIC_ID)
        env.disk.replace(f"{path}/{PARTITION_METADATA_FILE}", identity)
        topic_id = METADATA_TOPIC_ID
    try:
        loaded = loader.load()
    except LogDamaged:
        for segment in loader.segments:
            segment.close()
        raise
    return Log(
        topic_partition=topic_partition,
        topic_id=topic_id,
        config=config,
        env=env,
        path=path,
        loaded=loaded,
    )


def read_topic_id(env: LogEnv, path: str) -> TopicId:
    """Whose log lies in a directory; `ZERO_TOPIC_ID` when that cannot be told."""
    data = env.disk.read_file(f"{path}/{PARTITION_METADATA_FILE}")
    if data is None:
        return ZERO_TOPIC_ID
    try:
        return decode_partition_metadata(data)
    except CheckpointDamaged as error:
        file = f"{path}/{PARTITION_METADATA_FILE}"
        env.trace.warn(path, "load", "topic id unknown", str(error), file=file)
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
    contiguous: bool = True
    """Whether a hole between two batches is damage."""
    has_fixed_head: bool = True
    """Whether a missing head is damage."""
    segments: list[Segment] = field(default_factory=list)
    """Ascending by base offset."""
    rebuilt_bases: set[int] = field(default_factory=set)
    """Segments whose indexes were rebuilt."""
    snapshot_offsets: set[int] = field(default_factory=set)

    def load(self) -> LoadedLog:
        names = finish_swaps(self.env, self.path)
        self._open_segments(names)
        names = self._drop_deleted(names)
        epochs = self._read_epochs(names)
        log_end_offset = self._recover(epochs)
        if self._is_durable(log_end_offset) and log_end_offset < self._durable_end():
            detail = f"it ends at {log_end_offset}, {self._durable_end()} was durable"
            raise LogDamaged(f"`{self.path}` is damaged: {detail}", log_end_offset)
        if log_end_offset < self.checkpoints.log_start_offset:
            reason = "ends below the log start"
            log_end_offset = self._restart_at(self.checkpoints.log_start_offset, reason)
        elif self.nameless and log_end_offset > self.checkpoints.log_start_offset:
            log_end_offset = self._restart_at(0, "no topic id after an unclean stop")
            self.checkpoints = Checkpoints()
        first_base = self.segments[0].base_offset
        log_start_offset = max(self.checkpoints.log_start_offset, first_base)
        self._check_epochs(epochs, log_start_offset, log_end_offset)
        epochs.truncate_from_end(log_end_offset)
        epochs.truncate_from_start(log_start_offset)
        drop_snapshots_above(self.env.disk, self.path, self.snapshot_offsets, log_end_offset)
        self._drop_strays(names)
        producers = self._load_producers(log_start_offset, log_end_offset)
        unsynced: list[File] = []
        if log_end_offset == self.checkpoints.recovery_point == 0:
            unsynced = self._leave_to_first_flush()
        elif names and (self.rebuilt_bases or not self.clean):
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
            unsynced,
        )

    def _durable_end(self) -> int:
        """Exclusive: below it nothing can be missing by a crash alone."""
        return max(self.checkpoints.recovery_point, self.checkpoints.log_start_offset * self.clean)

    def _is_durable(self, offset: int) -> bool:
        """Whether what is missing or bad at `offset` is damage and no torn tail."""
        return self.clean or not self.checkpoints.complete or offset < self._durable_end()

    def _open_segments(self, names: list[str]) -> None:
        bases = sorted(_offset_of(name) for name in names if _is_kind(name, LOG_SUFFIX))
        for name in names:
            if _is_kind(name, SNAPSHOT_SUFFIX):
                self.snapshot_offsets.add(_offset_of(name))
        for base in bases or [self.checkpoints.log_start_offset]:
            self.segments.append(self._open_segment(base))

    def _open_segment(self, base_offset: int) -> Segment:
        segment = Segment(self.env.disk, self.path, base_offset, self.config)
        segment.contiguous = self.contiguous
        return segment

    def _drop_deleted(self, names: list[str]) -> list[str]:
        """Ends a deletion that a crash interrupted: what ends at or below the log start goes.
        Returns the names that remain."""
        start = self.checkpoints.log_start_offset
        keep = bisect_right([segment.base_offset for segment in self.segments], start) - 1
        if keep < 0 or not self.has_fixed_head:
            return names
        for segment in self.segments[:keep]:
            segment.delete()
        del self.segments[:keep]
        first_base = self.segments[0].base_offset
        gone = {name for name in names if _is_segment_file(name) and _offset_of(name) < first_base}
        for name in sorted(gone):
            self.env.disk.delete(f"{self.path}/{name}")
        return [name for name in names if name not in gone]

    # Epochs ----------------------------------------------------------------------------------

    def _read_epochs(self, names: list[str]) -> LeaderEpochCache:
        path = f"{self.path}/{LEADER_EPOCH_FILE}"
        entries: list[tuple[int, int]] = []
        try:
            entries = decode_epochs(self.env.disk.read_file(path) or b"")
        except CheckpointDamaged as error:
            self.env.trace.warn(self.path, "load", "epochs ignored", str(error), file=path)
        first_base = self.segments[0].base_offset
        begin = entries[0][1] if entries and self.clean else first_base
        begin = min([begin, *(_offset_of(name) for name in names if _is_segment_file(name))])
        if self.has_fixed_head and begin < first_base:
            # Whoever takes segments away at the head takes their indexes with them, and has moved
            # the first epoch.
            raise self.segments[0].damaged(f"the log began at {begin}, not at {first_base}")
        return LeaderEpochCache(path, self.env.effects, entries)

    def _check_epochs(
        self, epochs: LeaderEpochCache, log_start_offset: int, log_end_offset: int
    ) -> None:
        """Compares the epochs with batches; where they differ all batches are asked."""
        if log_end_offset == log_start_offset or self._agree(epochs, log_start_offset):
            return
        self.env.trace.warn(
            self.path, "load", "epochs rebuilt", "they are not those of the batches"
        )
        epochs.clear()
        for segment in self.segments:
            self._rebuild(segment, epochs)

    def _agree(self, epochs: LeaderEpochCache, log_start_offset: int) -> bool:
        last = [segment for segment in self.segments if segment.size_bytes][-1]
        places = [(last, last.next_offset() - 1)]
        starts = [start for _, start in epochs.entries]
        # Where an epoch begins, and where the one before it ends: no other can lie between.
        for offset in (log_start_offset, *starts, *(start - 1 for start in starts)):
            covering = [one for one in self.segments if one.base_offset <= max(offset, 0)]
            if covering and log_start_offset <= offset:
                places.append((covering[-1], offset))
        for segment, offset in places:
            header = segment.header_of(offset)
            if header is None or header.leader_epoch < 0:
                continue
            begins = header.base_offset == offset or offset not in starts
            begins |= offset == log_start_offset
            if not begins or header.leader_epoch != epochs.epoch_at(header.last_offset):
                return False
            if header.leader_epoch != epochs.epoch_at(max(header.base_offset, log_start_offset)):
                return False
        return True

    # Segments --------------------------------------------------------------------------------

    def _recover(self, epochs: LeaderEpochCache) -> int:
        """Loads or rebuilds the indexes of every segment; cuts a torn tail. Returns the log end.

        Raises `LogDamaged` where durable records are missing.
        """
        first_unclean = self._first_unclean()
        next_offset = self.segments[0].base_offset
        for index, segment in enumerate(self.segments):
            if segment.base_offset != next_offset and self._is_broken(index, next_offset):
                # A power cut took the end of the segment before and left this one, cut at a batch
                # by chance. What lies behind a hole is not the log's any more.
                self._drop_from(index, f"it does not begin at {next_offset}")
                return next_offset
            before_bytes = segment.size_bytes
            next_offset = self._load_segment(segment, epochs, index < first_unclean)
            if segment.size_bytes < before_bytes:
                lost_bytes = before_bytes - segment.size_bytes
                self.env.trace.warn(
                    self.path, "recover", "cut", "bad batch", offset=next_offset, bytes=lost_bytes
                )
                self._drop_from(index + 1, "follows a bad batch")
                break
        return next_offset

    def _is_broken(self, index: int, next_offset: int) -> bool:
        """Whether the segment that does not begin where it is due is to be dropped."""
        segment = self.segments[index]
        if segment.base_offset > next_offset and not self.contiguous:
            return self._durable_end() <= next_offset and not self.clean
        if self._is_durable(min(next_offset, segment.base_offset)):
            detail = f"segment {segment.base_offset} does not begin at {next_offset}"
            if segment.base_offset < next_offset:
                raise self.segments[index - 1].damaged(detail)
            raise LogDamaged(f"`{self.path}` is damaged: {detail}", next_offset)
        return True

    def _first_unclean(self) -> int:
        """Index of the first segment that must be recovered: also the one that ends exactly at the
        recovery point. It may have been cut there, and that the cut is durable nobody says."""
        if self.clean:
            return len(self.segments)
        last = len(self.segments) - 1
        covering = [
            index
            for index, segment in enumerate(self.segments)
            if segment.base_offset < self.checkpoints.recovery_point
        ]
        return min(last, covering[-1]) if covering else 0

    def _load_segment(self, segment: Segment, epochs: LeaderEpochCache, sound: bool) -> int:
        """Makes a segment ready; returns its end. `sound` trusts its batches."""
        bad = segment.load_indexes() if sound else None
        if sound and bad is None:
            try:
                return segment.next_offset()
            except LogDamaged as error:
                self.env.trace.warn(self.path, "load", "segment is scanned", error.message)
        elif bad is not None and (segment.size_bytes or bad.reason != MISSING):
            # A log that never had records has no indexes. Recovery makes them anew unasked; where
            # batches are trusted they were durable before, so something took them.
            name = offset_name(segment.base_offset) + bad.suffix
            self.env.trace.warn(self.path, "load", "index rebuilt", bad.reason, file=name)
        return self._rebuild(segment, epochs)

    def _rebuild(self, segment: Segment, epochs: LeaderEpochCache) -> int:
        """Scans a segment: its indexes are made anew, a torn tail is cut; returns its end."""
        next_offset, size_bytes = segment.base_offset, 0
        found: list[tuple[int, int]] = []
        try:
            for batch in segment.rebuild(self.config.index_interval_bytes):
                header = batch.header
                if header.leader_epoch >= 0 and (not found or header.leader_epoch > found[-1][0]):
                    found.append((header.leader_epoch, header.base_offset))
                next_offset = header.last_offset + 1
                size_bytes += header.size_bytes
        except LogDamaged:
            if self._is_durable(next_offset):
                raise
            segment.file.truncate(size_bytes)
        self.rebuilt_bases.add(segment.base_offset)
        segment.txn_index.reset()
        # The file may be older than the log: what the headers say replaces it, for this segment.
        behind = [entry for entry in epochs.entries if entry[1] >= next_offset]
        epochs.truncate_from_end(segment.base_offset)
        for epoch, start_offset in (*found, *behind):
            if epoch > epochs.latest_epoch:
                epochs.assign(epoch, start_offset)
        return next_offset

    def _drop_from(self, index: int, reason: str) -> None:
        for segment in self.segments[index:]:
            self.env.trace.warn(
                self.path, "recover", "dropped", reason, base_offset=segment.base_offset
            )
            segment.delete()
        del self.segments[index:]

    def _restart_at(self, offset: int, reason: str) -> int:
        """Empties the log; it goes on at `offset`."""
        self._drop_from(0, reason)
        self.rebuilt_bases.clear()
        drop_snapshots_above(self.env.disk, self.path, self.snapshot_offsets, -1)
        self.segments.append(self._open_segment(offset))
        return offset

    def _drop_strays(self, names: list[str]) -> None:
        """Deletes indexes without a log file. Keeps the snapshots at segment bases, and the newest
        one if it lies beyond them all."""
        bases = {segment.base_offset for segment in self.segments}
        for name in names:
            if _is_segment_file(name) and _offset_of(name) not in bases:
                self.env.disk.delete(f"{self.path}/{name}")
        newest = max(self.snapshot_offsets, default=-1)
        for offset in sorted(self.snapshot_offsets):
            stray = offset not in bases and (offset != newest or offset < max(bases))
            if stray or not self._is_snapshot(offset):
                self.env.disk.delete(snapshot_path(self.path, offset))
                self.snapshot_offsets.discard(offset)

    def _is_snapshot(self, offset: int) -> bool:
        """Whether a snapshot can be read; after a clean stop they are believed until they are."""
        path = snapshot_path(self.path, offset)
        try:
            if not self.clean:
                decode_snapshot(self.env.disk.read_file(path) or b"")
        except SnapshotDamaged as error:
            self.env.trace.warn(self.path, "load", "snapshot dropped", str(error), file=path)
            return False
        return True

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
        for file in self._identity():
            disk.sync(file)
            file.close()
        if log_end_offset > 0:
            disk.replace(snapshot_path(self.path, log_end_offset), producers.encode_snapshot())
            self.snapshot_offsets.add(log_end_offset)

    def _leave_to_first_flush(self) -> list[File]:
        """What a crash may have left in memory only of a log without records."""
        if self.clean:
            return []
        for segment in self.segments:
            segment.dirty = True
        return self._identity()

    def _identity(self) -> list[File]:
        """The file, open, with the topic id: records that count as durable need it, or nobody
        could tell whose they are."""
        path = f"{self.path}/{PARTITION_METADATA_FILE}"
        return [self.env.disk.open(path)] if self.env.disk.exists(path) else []


def cut_from(disk: Disk, path: str, base_offset: int, *, set_aside: bool = False) -> bool:
    """Deletes the segments from `base_offset` on, and all that speaks of them; returns whether
    any are left. Without any nothing of the old log is left. Its identity stays, and so does what
    is not the log's: beside the metadata log lie the quorum's votes and snapshots.

    With `set_aside` the records themselves stay as `.corrupt`, for whoever has no other copy.
    """
    names = disk.list_dir(path)
    kept = [n for n in names if _is_kind(n, LOG_SUFFIX) and _offset_of(n) < base_offset]
    for name in names:
        is_segment, is_snapshot = _is_segment_file(name), _is_kind(name, SNAPSHOT_SUFFIX)
        beyond = is_segment and _offset_of(name) >= base_offset
        beyond |= is_snapshot and _offset_of(name) > base_offset
        of_log = is_segment or is_snapshot or name == LEADER_EPOCH_FILE
        if not (beyond or (not kept and of_log)):
            continue
        file = f"{path}/{name}"
        if set_aside and name.endswith(LOG_SUFFIX) and _has_content(disk, file):
            disk.delete(file + CORRUPT_SUFFIX)
            disk.rename(file, file + CORRUPT_SUFFIX)
        else:
            disk.delete(file)
    return bool(kept)


def _has_content(disk: Disk, path: str) -> bool:
    file = disk.open(path)
    size_bytes = file.size_bytes
    file.close()
    return size_bytes > 0


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

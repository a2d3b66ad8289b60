"""Opening one log: the order of the steps, and the offsets to start from.

What a crash left is cleaned up first (`replacement.py`), then the segments are made ready
(`recovery.py`), then everything beside them is trimmed to what they hold: epochs, snapshots,
indexes without a log file. Producer state is rebuilt last (`replay.py`).

When a log is open everything in it is durable: recovery syncs what it kept, or its caller does for
many logs at once, so the recovery point starts at the log end. Logs without records are not synced:
a node may have thousands of them, and fsync would take minutes. Their next flush covers
`partition.metadata`, and a truncation that a crash may have left half durable.

A log that never had a record has no segment's files. Most logs of a large node are like that, so
opening one takes a listing of the directory and a read of its topic id. A new one (`make_log`)
takes a directory and the topic id.

Invariants
- The log start is at least the first segment's base; a log that ends below its checkpointed start
  is emptied and begins there.
- Where a log begins above 0, because a start has made its first segment, is durable.
- Records that are missing below the checkpointed log start were deleted: that is not damage.
- A hole between batches is one that a cleaner has left if the cleaner's checkpoint has the log, or
  `has-gaps` is beside it, or the metadata has the topic as compacted; else it is damage or a torn
  tail. The metadata is asked once at most: then there is `has-gaps`.
- The epoch cache covers [log start, log end) and nothing else.

Source: Kafka's `LogLoader`.
"""

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass, field

from tidelog import model
from tidelog.config import LogConfig
from tidelog.env.disk import File
from tidelog.errors import GapFound, LogDamaged
from tidelog.limits import FILE_DELETION_WORK, FILE_SYNC_WORK, LOG_SAVING_WORK, SEGMENT_LOADING_WORK
from tidelog.log import checkpoint
from tidelog.log.batch_file import HeldFile
from tidelog.log.epoch_cache import LeaderEpochCache
from tidelog.log.events import EpochsRebuilt, TopicIdUnknown
from tidelog.log.file_names import (
    CHECKPOINT_SUFFIX,
    GAPS_FILE,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_name,
    offsets_in,
)
from tidelog.log.flushing import FlushLedger
from tidelog.log.log import Log
from tidelog.log.partition_directories import make_partition_dir
from tidelog.log.pieces import Pieces, finish
from tidelog.log.producer_snapshots import ProducerSnapshots, SnapshotDamaged, decode_snapshot
from tidelog.log.producer_state import ProducerStates
from tidelog.log.recovery import Recovery, epochs_agree
from tidelog.log.replacement import finish_swaps
from tidelog.log.replay import rebuild_producers
from tidelog.log.segment import Segment
from tidelog.log.segments import SegmentList
from tidelog.log.state import UNCUT
from tidelog.log.tail_cache import TailBudget, TailCache
from tidelog.log.values import Checkpoints, LogEnv
from tidelog.model import TopicId, TopicPartition


def make_log(
    env: LogEnv,
    topic_partition: TopicPartition,
    topic_id: TopicId,
    config: LogConfig,
    *,
    sibling: str | None = None,
    path: str = "",
) -> Log:
    """Makes the log of a partition, not durable: it has nothing to lose in a crash, and its first
    flush covers the directory. Opens what a failed attempt has left. `sibling` is the directory of
    another log of the topic, if there is one (`rolling.assign_topic_id`). `path` is the name of the
    log's directory, unless that is the partition's."""
    is_new = make_partition_dir(env.disk, path or str(topic_partition))
    names: list[str] | None = [] if is_new else None
    log = finish(
        opened(env, topic_partition, config, Checkpoints(), clean=True, names=names, path=path)
    )
    log.assign_topic_id(topic_id, is_new=is_new, sibling=sibling)
    return log


def open_log(
    env: LogEnv,
    topic_partition: TopicPartition,
    config: LogConfig,
    checkpoints: Checkpoints,
    clean: bool = True,
    wall_ms: int = -1,
    names: list[str] | None = None,
) -> Log:
    """Opens the log of a partition at once: see `opened`."""
    return finish(opened(env, topic_partition, config, checkpoints, clean, wall_ms, names))


def opened(
    env: LogEnv,
    topic_partition: TopicPartition,
    config: LogConfig,
    checkpoints: Checkpoints,
    clean: bool = True,
    wall_ms: int = -1,
    names: list[str] | None = None,
    sync_later: bool = False,
    path: str = "",
) -> Pieces[Log]:
    """Opens the log of a partition, whose directory exists; an empty one is an empty log. Raises
    `LogDamaged`, with all files as they were, when records are missing that were durable. `names`
    are the directory's files, for a caller who knows them. With `sync_later` it is the caller who
    makes durable what recovery kept. `path` is the directory, unless it is named after the
    partition."""
    path = path or str(topic_partition)
    if names is None:
        names = yield from finish_swaps(env, path)
    if GAPS_FILE in names and checkpoints.cleaned_to < 0:
        checkpoints = checkpoints._replace(cleaned_to=0)
    has_id = checkpoint.PARTITION_METADATA_FILE in names
    topic_id = read_topic_id(env, topic_partition, path) if has_id else model.ZERO_TOPIC_ID
    # The id is written before the first record and flushed with it. So a log that has records and
    # no id after a power cut has no acknowledged record. It may be of a topic that was deleted and
    # created again meanwhile, and its records must not become records of the new topic.
    # The first flush is checkpointed at once, so a log without a recovery point was never flushed.
    was_durable = clean or not checkpoints.complete or checkpoints.recovery_point > 0
    is_metadata = topic_partition == model.METADATA_PARTITION
    unidentified = not was_durable and topic_id == model.ZERO_TOPIC_ID and not is_metadata
    loader = _Loader(env, path, config, checkpoints, names, clean, wall_ms, unidentified)
    loader.sync_later = sync_later
    # The head of the metadata log goes when a snapshot has taken its place, at any moment.
    loader.has_fixed_head = not is_metadata
    loader.never_had_head = is_metadata and not clean and _is_without_witness(checkpoints, names)
    may_have_gaps = checkpoints.cleaned_to >= 0 or topic_partition.topic in model.INTERNAL_TOPICS
    loader.contiguous = not may_have_gaps and "compact" not in config.cleanup_policy
    if is_metadata and topic_id != model.METADATA_TOPIC_ID and names:
        # It is the same in every cluster.
        identity = checkpoint.encode_partition_metadata(model.METADATA_TOPIC_ID)
        env.disk.replace(f"{path}/{checkpoint.PARTITION_METADATA_FILE}", identity)
        topic_id = model.METADATA_TOPIC_ID
        loader.names.append(checkpoint.PARTITION_METADATA_FILE)
    try:
        return (yield from loader.load(topic_partition, topic_id))
    except (LogDamaged, GeneratorExit) as error:
        for segment in loader.segments:
            segment.close()
        if not isinstance(error, GapFound) or not env.was_compacted(topic_partition.topic):
            raise
    yield from _note_gaps(env, path, sync_later=sync_later)
    again = opened(
        env, topic_partition, config, checkpoints, clean, wall_ms, sync_later=sync_later, path=path
    )
    return (yield from again)


def _note_gaps(env: LogEnv, path: str, *, sync_later: bool) -> Pieces[None]:
    """A follower of Apache Kafka has fetched gaps, which Kafka notes nowhere. What the metadata
    says of the topic now may be gone from it at the next start."""
    env.trace.info(path, "open_log", "gaps are believed", "its topic is or was compacted")
    file = env.disk.open(f"{path}/{GAPS_FILE}", create=True)
    if not sync_later:
        env.disk.sync(file)
        yield FILE_SYNC_WORK
    file.close()


def read_topic_id(env: LogEnv, partition: TopicPartition, path: str = "") -> TopicId:
    """The topic id in a partition's directory; `ZERO_TOPIC_ID` when it cannot be read."""
    file = f"{path or partition}/{checkpoint.PARTITION_METADATA_FILE}"
    data = env.disk.read_file(file)
    if data is None:
        return model.ZERO_TOPIC_ID
    try:
        return checkpoint.decode_partition_metadata(data)
    except checkpoint.IdentityDamaged as error:
        fault, detail = error.fault, str(error)
    env.trace.event(TopicIdUnknown(partition=partition, reason=fault, detail=detail, file=file))
    return model.ZERO_TOPIC_ID


def _is_without_witness(checkpoints: Checkpoints, names: Collection[str]) -> bool:
    """Whether nothing shows that records of the metadata log were ever durable: no checkpoint, and
    no snapshot, sound or not, in whose place its head could have gone."""
    has_checkpoint = checkpoints.recovery_point > 0 or checkpoints.log_start_offset > 0
    return checkpoints.complete and not has_checkpoint and _newest_snapshot(names) == 0


def _newest_snapshot(names: Collection[str]) -> int:
    """The end offset in the names of the snapshots of the metadata, sound or not; 0 without one."""
    stems = (name.partition("-")[0] for name in names if CHECKPOINT_SUFFIX in name)
    return max((int(stem) for stem in stems if stem.isdigit()), default=0)


@dataclass(slots=True)
class _Loader:
    """The steps of opening one log, in order."""

    env: LogEnv
    path: str
    config: LogConfig
    checkpoints: Checkpoints
    names: list[str]
    """The files of the directory; none for a new one."""
    clean: bool = True
    wall_ms: int = -1
    unidentified: bool = False
    """Whether the topic of the records is not known: then they are dropped."""
    contiguous: bool = True
    """Whether a hole between two batches is damage."""
    has_fixed_head: bool = True
    """Whether a missing head is damage."""
    never_had_head: bool = False
    """Whether a first segment above offset 0 means that the power went before anything was durable:
    a later segment's name survived, and not that of the first."""
    lacks_head: bool = False
    """Whether the first segment is missing, and was never durable."""
    sync_later: bool = False
    """Whether the caller makes durable what is kept."""
    segments: list[Segment] = field(default_factory=list)
    """Ascending by base offset."""

    def load(self, topic_partition: TopicPartition, topic_id: TopicId) -> Pieces[Log]:
        found = offsets_in(self.names)
        snapshots = yield from self._open_segments(found)
        self.lacks_head = self.never_had_head and self.segments[0].base_offset > 0
        yield from self._drop_deleted(found)
        saved_epochs = self._read_epochs()
        epochs = self._cache_epochs(saved_epochs or [], found)
        recovery = self._make_recovery(topic_partition, epochs, snapshots)
        log_end_offset = self.segments[0].base_offset
        if found:
            log_end_offset = yield from recovery.recover()
        log_end_offset = yield from self._restart_if_due(recovery, snapshots, log_end_offset)
        log_start_offset = max(self.checkpoints.log_start_offset, self.segments[0].base_offset)
        yield from self._check_epochs(recovery, log_start_offset, log_end_offset)
        snapshots.drop_outside(0, log_end_offset)
        self._drop_strays(found, snapshots)
        producers = yield from self._rebuild_producers(snapshots, recovery, log_end_offset)
        epochs.end_loading(self.env.effects, saved_epochs, log_end_offset)
        never_flushed = log_end_offset == self.checkpoints.recovery_point == 0
        unflushed_cut, ledger = UNCUT, FlushLedger(topic_partition, self.env.effects)
        if not never_flushed and recovery.rebuilt_bases:
            written = yield from self._write_indexes(recovery.rebuilt_bases)
            if epochs.is_new and log_end_offset > log_start_offset:
                written.append(epochs.write_first(self.env.disk))
            if self._lacks_snapshot(snapshots, log_start_offset):
                written.append(snapshots.write(log_end_offset, producers.encode_snapshot()))
            written += self._unsynced_snapshots(snapshots)
            yield from self._make_durable(written, recovery.rebuilt_bases)
        elif not self.clean and found and not self.sync_later:
            # A truncation may be in memory only.
            unflushed_cut, ledger.cut_is_pending = log_end_offset, True
            self._leave_to_flush(ledger, snapshots)
        for segment in self.segments:
            segment.batches.file = segment.file
        high_watermark = max(log_start_offset, min(self.checkpoints.high_watermark, log_end_offset))
        producers.on_high_watermark(high_watermark)
        cleaned_to = self.checkpoints.cleaned_to
        return Log(
            topic_partition=topic_partition,
            topic_id=topic_id,
            config=self.config,
            env=self.env,
            path=self.path,
            segments=SegmentList(self.segments),
            epochs=epochs,
            producers=producers,
            snapshots=snapshots,
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
            high_watermark=high_watermark,
            recovery_point=log_end_offset,
            unflushed_cut=unflushed_cut,
            # One beyond the end is of another log that had this name: all of this one is dirty.
            cleaned_to=0 if cleaned_to > log_end_offset else cleaned_to,
            tail=TailCache(self.env.tails or TailBudget()),
            ledger=ledger,
            identity_is_unsynced=never_flushed and self._has_identity and not self.clean,
        )

    def _rebuild_producers(
        self, snapshots: ProducerSnapshots, recovery: Recovery, log_end_offset: int
    ) -> Pieces[ProducerStates]:
        producers = ProducerStates()
        yield from rebuild_producers(
            producers,
            self.env.trace,
            self.segments,
            snapshots,
            log_end_offset=log_end_offset,
            rebuilt_bases=recovery.rebuilt_bases,
            wall_ms=self.wall_ms,
        )
        return producers

    def _make_recovery(
        self, partition: TopicPartition, epochs: LeaderEpochCache, snapshots: ProducerSnapshots
    ) -> Recovery:
        point = self.checkpoints.recovery_point
        return Recovery(
            self.env,
            partition,
            self.config,
            self.checkpoints,
            self.clean,
            self.segments,
            epochs,
            point > 0 and point in snapshots,
        )

    @property
    def _has_identity(self) -> bool:
        return checkpoint.PARTITION_METADATA_FILE in self.names

    def _open_segments(self, found: dict[str, int]) -> Pieces[ProducerSnapshots]:
        bases = sorted(base for name, base in found.items() if name.endswith(LOG_SUFFIX))
        for base in bases:
            self.segments.append(self._open_segment(base))
            name = offset_name(base) + TXN_INDEX_SUFFIX
            self.segments[-1].txn_index.may_exist = name in found
            yield SEGMENT_LOADING_WORK
        snapshots = offsets_in(self.names, SNAPSHOT_SUFFIX).values()
        if not bases:
            # Only the file's name says where an empty log begins, unless it begins at 0.
            start = self.checkpoints.log_start_offset
            # A clean stop leaves no index without its log, and no producer snapshot of records that
            # are not there (seed 462135431).
            had_records = bool(found) or max(snapshots, default=start) > start
            if had_records and self._all_was_durable:
                raise LogDamaged(f"`{self.path}` is damaged: no segment is left", start)
            yield from self._begin_at(start, is_new=start == 0)
        return ProducerSnapshots(self.env.disk, self.path, snapshots)

    @property
    def _all_was_durable(self) -> bool:
        """Whether no crash can have taken anything, or nothing shows what one can have taken."""
        return self.clean or not self.checkpoints.complete

    def _begin_at(self, offset: int, *, is_new: bool = False) -> Pieces[None]:
        """Makes the segment of a log that has none. Above 0 its name is durable before anything
        depends on it: beside a checkpoint only it says where the log begins."""
        segment = self._open_segment(offset, is_new=is_new)
        self.segments.append(segment)
        if offset and not self.sync_later:
            self.env.disk.sync(segment.file)
            yield FILE_SYNC_WORK

    def _open_segment(self, base_offset: int, *, is_new: bool = False) -> Segment:
        segment = Segment(self.env.disk, self.path, base_offset, self.config, is_new=is_new)
        segment.batches.contiguous = self.contiguous
        segment.batches.file = HeldFile(segment.file)
        return segment

    def _drop_deleted(self, found: dict[str, int]) -> Pieces[None]:
        """Ends a deletion that a crash interrupted, up to the log start. Takes the segments' files
        that go out of those that were found."""
        start = self.checkpoints.log_start_offset
        keep = bisect_right([segment.base_offset for segment in self.segments], start) - 1
        if keep < 0 or not self.has_fixed_head:
            return
        for segment in self.segments[:keep]:
            segment.delete()
            yield len(SEGMENT_SUFFIXES) * FILE_DELETION_WORK
        del self.segments[:keep]
        first_base = self.segments[0].base_offset
        for name in [name for name, offset in found.items() if offset < first_base]:
            self.env.disk.delete(f"{self.path}/{name}")
            del found[name]

    def _read_epochs(self) -> list[tuple[int, int]] | None:
        """What the epoch checkpoint has; `None` for a damaged one."""
        if checkpoint.LEADER_EPOCH_FILE not in self.names:
            return []
        path = f"{self.path}/{checkpoint.LEADER_EPOCH_FILE}"
        try:
            return checkpoint.decode_epochs(self.env.disk.read_file(path) or b"")
        except checkpoint.CheckpointDamaged as error:
            self.env.trace.warn(self.path, "read_epochs", "epochs ignored", str(error), file=path)
            return None

    def _cache_epochs(
        self, entries: list[tuple[int, int]], found: dict[str, int]
    ) -> LeaderEpochCache:
        """Raises `LogDamaged` when durable records before its first segment are missing."""
        first_base = self.segments[0].base_offset
        begin = entries[0][1] if entries and self.clean else first_base
        begin = min([begin, *found.values()])
        if self.has_fixed_head and begin < first_base:
            # Deletion at the head takes the indexes with the segments, and moves the first epoch.
            detail = f"the log began at {begin}, not at {first_base}"
            if self._all_was_durable or begin < self.checkpoints.recovery_point:
                raise self.segments[0].batches.damaged(detail)
            self.lacks_head = True
        path = f"{self.path}/{checkpoint.LEADER_EPOCH_FILE}"
        # The metadata log is flushed with its first record, so there is nothing to put off.
        is_metadata = self.path == str(model.METADATA_PARTITION)
        is_new = checkpoint.LEADER_EPOCH_FILE not in self.names and not is_metadata
        return LeaderEpochCache(path, None, entries, is_new=is_new)

    def _restart_if_due(
        self, recovery: Recovery, snapshots: ProducerSnapshots, log_end_offset: int
    ) -> Pieces[int]:
        """Empties a log that lacks its beginning or its identity; returns the log end. Raises
        `LogDamaged` where durable records are missing."""
        durable_end = recovery.durable_end()
        lacks_start = log_end_offset < self.checkpoints.log_start_offset
        is_short = recovery.is_durable(log_end_offset) and log_end_offset < durable_end
        if is_short or (lacks_start and self._lacks_snapshot_at_start):
            due = f"{durable_end} was durable"
            if lacks_start:
                due = f"its checkpoint begins at {self.checkpoints.log_start_offset}"
            detail = f"it ends at {log_end_offset}, {due}"
            # With a start beyond the end nothing of it is known to be right.
            bad_from = 0 if lacks_start else log_end_offset
            raise LogDamaged(f"`{self.path}` is damaged: {detail}", bad_from)
        if lacks_start:
            restart_at, reason = self.checkpoints.log_start_offset, "ends below the log start"
        elif self.unidentified and log_end_offset > self.checkpoints.log_start_offset:
            restart_at, reason = 0, "no topic id after an unclean stop"
            self.checkpoints = Checkpoints()
        elif self.lacks_head:
            restart_at, reason = self.checkpoints.log_start_offset, "its first segment is missing"
        else:
            return log_end_offset
        yield from recovery.drop_from(0, reason)
        recovery.rebuilt_bases.clear()
        snapshots.drop_outside(0, -1)
        yield from self._begin_at(restart_at)
        return restart_at

    @property
    def _lacks_snapshot_at_start(self) -> bool:
        """Whether no snapshot, sound or not, says with the checkpoint that the metadata log begins
        there: no checksum covers that number, and all records would go by it."""
        log_start_offset = self.checkpoints.log_start_offset
        return not self.has_fixed_head and _newest_snapshot(self.names) < log_start_offset

    def _check_epochs(
        self, recovery: Recovery, log_start_offset: int, log_end_offset: int
    ) -> Pieces[None]:
        """Compares the epochs with batches; where they differ, the batches decide. Epochs without
        batches are dropped."""
        epochs = recovery.epochs
        has_batches = log_end_offset != log_start_offset
        if has_batches and not epochs_agree(epochs, self.segments, log_start_offset):
            self.env.trace.event(EpochsRebuilt(partition=recovery.topic_partition))
            epochs.clear()
            for segment in self.segments:
                yield from recovery.rebuild(segment)
        epochs.truncate_from_end(log_end_offset)
        epochs.truncate_from_start(log_start_offset)

    def _drop_strays(self, found: dict[str, int], snapshots: ProducerSnapshots) -> None:
        """Deletes indexes without a log file. Keeps the snapshots at segment bases, and the newest
        one if it lies beyond them all."""
        bases = {segment.base_offset for segment in self.segments}
        for name, offset in found.items():
            # An index beside a segment that this start has made is of one whose name was not
            # durable. After a clean stop it would be what is left of a lost log.
            if offset not in bases or offset_name(offset) + LOG_SUFFIX not in found:
                self.env.disk.delete(f"{self.path}/{name}")
        newest = max(snapshots.offsets, default=-1)
        for offset in snapshots.offsets:
            stray = offset not in bases and (offset != newest or offset < max(bases))
            if stray or not self._is_snapshot(snapshots, offset):
                snapshots.drop(offset)

    def _is_snapshot(self, snapshots: ProducerSnapshots, offset: int) -> bool:
        """Whether a snapshot can be read; after a clean stop that is not checked here."""
        try:
            if not self.clean:
                decode_snapshot(snapshots.read(offset))
        except SnapshotDamaged as error:
            path = snapshots.path(offset)
            self.env.trace.warn(self.path, "drop_strays", "snapshot dropped", str(error), file=path)
            return False
        return True

    def _write_indexes(self, rebuilt_bases: Collection[int]) -> Pieces[list[File]]:
        """Those of the active segment only after a clean stop, which left them: after a crash the
        next seal or stop writes them, as for any active segment."""
        written: list[File] = []
        for segment in self.segments if self.clean else self.segments[:-1]:
            if segment.base_offset in rebuilt_bases:
                written += segment.write_indexes()
                yield LOG_SAVING_WORK
        return written

    def _leave_to_flush(self, ledger: FlushLedger, snapshots: ProducerSnapshots) -> None:
        """What a former process has written may be in memory only; a stop may have saved it."""
        for segment in self.segments:
            segment.dirty = True
        ledger.add(*self._unsynced_snapshots(snapshots))
        if self.segments[-1].indexes_are_saved:
            ledger.add(*self.segments[-1].reopened_indexes())

    def _unsynced_snapshots(self, snapshots: ProducerSnapshots) -> list[File]:
        """Those that no flush may have covered. What was killed has left them, and a power cut
        takes them: then a producer would be forgotten whose records were deleted."""
        if self.clean or self.sync_later:
            return []
        point = self.checkpoints.recovery_point
        return [snapshots.reopened(offset) for offset in snapshots.offsets if offset >= point]

    def _lacks_snapshot(self, snapshots: ProducerSnapshots, log_start_offset: int) -> bool:
        """Whether each start would replay sealed segments."""
        last_base = self.segments[-1].base_offset
        return last_base > log_start_offset and last_base not in snapshots

    def _make_durable(self, written: list[File], rebuilt_bases: Collection[int]) -> Pieces[None]:
        disk = self.env.disk
        if not self.sync_later:
            if self._has_identity:
                # Without it durable records would be dropped.
                path = f"{self.path}/{checkpoint.PARTITION_METADATA_FILE}"
                written.append(disk.open(path))
            for segment in self.segments:
                if segment.base_offset in rebuilt_bases:
                    for file in segment.unsynced_files():
                        disk.sync(file)
                        yield FILE_SYNC_WORK
            for file in written:
                disk.sync(file)
                yield FILE_SYNC_WORK
        for file in written:
            file.close()

"""Recovery of a log's segments at a start: what is trusted, rebuilt and cut.

After a clean stop the files are taken as they are; a segment whose index is missing or does not fit
is rebuilt from its batches, with a warning: an index goes to the disk with the batches. After
anything else every segment from the recovery point on is recovered: batches are walked, checksums
verified, indexes and epochs rebuilt. The newest segment is recovered also when the recovery point
claims that it is durable, because the point may be newer than a truncation that a crash undid.
Except where the log ends at the point, with sound indexes and a producer snapshot for that very
offset: it was not written to since. Of ten thousand logs most are like that.

**A torn tail is not damage.** What a crash may take and what only a failing medium takes differ by
where it is missing:
- At or above the recovery point, after an unclean stop: a torn tail. The log is cut at the first
  bad batch *and all later segments are dropped*: a log with a hole is not a prefix of the leader's
  log.
- Below it, or anywhere after a clean stop: damage. These records were durable, and the cluster may
  count on this replica for them. The controller could elect the shorter log, and all followers
  would truncate theirs ("Protocol-Aware Recovery", FAST '18). No file is touched; `LogDamaged` is
  raised, and the replica is quarantined until replication proves where to repair it from.
- Where the recovery point itself cannot be read, everything counts as durable.

A gap between sound batches is neither where the metadata has the topic as compacted: then the log
is opened anew, as one with gaps (`loading.py`). A gap before the last batch of all is not believed.

The recovery point thus proves that a log was longer. It errs on the safe side only: a crash
between a truncation and the checkpoint that follows it looks like damage, and costs a repair.

Recovery trusts headers and checksums only; bodies are the producers' business. The epoch checkpoint
has no checksum, so its entries are compared with the batches at their offsets.

Source: Kafka's `LogLoader` and `LogSegment.recover`; Alagappan et al., FAST '18.
"""

from dataclasses import dataclass, field

from tidelog.config import LogConfig
from tidelog.errors import GapFound, LogDamaged
from tidelog.limits import FILE_DELETION_WORK, SEGMENT_LOADING_WORK
from tidelog.log.epoch_cache import LeaderEpochCache
from tidelog.log.events import IndexRebuilt, TailCut
from tidelog.log.file_names import SEGMENT_SUFFIXES, offset_name
from tidelog.log.pieces import Pieces, Walk
from tidelog.log.segment import MISSING, Segment
from tidelog.log.values import Checkpoints, LogEnv
from tidelog.model import TopicPartition


@dataclass(slots=True)
class Recovery:
    """Makes the segments of one log ready, the oldest first."""

    env: LogEnv
    topic_partition: TopicPartition
    config: LogConfig
    checkpoints: Checkpoints
    clean: bool
    """Whether the last stop was clean."""
    segments: list[Segment]
    """Ascending by base offset; what is cut is taken out."""
    epochs: LeaderEpochCache
    """From the checkpoint; entries of rebuilt segments are replaced."""
    is_saved: bool = False
    """Whether there is a producer snapshot at the recovery point. A cut below would have deleted
    it, so an unclean log that ends there is as a clean stop, or a roll, has left it."""
    rebuilt_bases: set[int] = field(default_factory=set)
    """Segments whose indexes were rebuilt."""

    def durable_end(self) -> int:
        """Exclusive: below it nothing can be missing by a crash alone."""
        return max(self.checkpoints.recovery_point, self.checkpoints.log_start_offset * self.clean)

    def is_durable(self, offset: int) -> bool:
        """Whether what is missing or bad at `offset` is damage and no torn tail."""
        return self.clean or not self.checkpoints.complete or offset < self.durable_end()

    def recover(self) -> Pieces[int]:
        """Loads or rebuilds the indexes of every segment; cuts a torn tail. Returns the log end.
        Raises `LogDamaged` where durable records are missing."""
        first_unclean = self._first_unclean()
        next_offset = self.segments[0].base_offset
        for index, segment in enumerate(self.segments):
            if segment.base_offset != next_offset and self._is_broken(index, next_offset):
                # A power cut took the end of the segment before and left this one, cut at a batch
                # by chance. What lies behind a hole is not the log's any more.
                yield from self.drop_from(index, f"it does not begin at {next_offset}")
                return next_offset
            before_bytes = segment.size_bytes
            if index == first_unclean and self._is_as_saved(index):
                next_offset = self.checkpoints.recovery_point
                first_unclean = len(self.segments)
            else:
                next_offset = yield from self._load_segment(segment, index < first_unclean)
            yield SEGMENT_LOADING_WORK
            if segment.size_bytes < before_bytes:
                lost, partition = before_bytes - segment.size_bytes, self.topic_partition
                self.env.trace.event(TailCut(partition=partition, offset=next_offset, bytes=lost))
                yield from self.drop_from(index + 1, "follows a bad batch")
                break
        return next_offset

    def _is_broken(self, index: int, next_offset: int) -> bool:
        """Whether the segment that does not begin where it is due is to be dropped."""
        segment = self.segments[index]
        if segment.base_offset > next_offset and not segment.batches.contiguous:
            # What a cleaner has left was durable: Kafka's leaves holes between segments.
            was_cleaned = next_offset < self.checkpoints.cleaned_to
            return not was_cleaned and not self.is_durable(next_offset)
        if self.is_durable(min(next_offset, segment.base_offset)):
            detail = f"segment {segment.base_offset} does not begin at {next_offset}"
            if segment.base_offset < next_offset:
                raise self.segments[index - 1].batches.damaged(detail)
            raise GapFound(f"`{self.topic_partition}` is damaged: {detail}", next_offset)
        return True

    def _first_unclean(self) -> int:
        """Index of the first segment that must be recovered: also the one that ends exactly at the
        recovery point. It may have been truncated there, and the truncation may not be durable."""
        if self.clean:
            return len(self.segments)
        point = self.checkpoints.recovery_point
        return max(0, sum(segment.base_offset < point for segment in self.segments) - 1)

    def _is_as_saved(self, index: int) -> bool:
        """Whether the log was not written to since its end was saved, in this segment: then there
        is nothing to recover. Loads its indexes."""
        segment, others = self.segments[index], self.segments[index + 1 :]
        if not self.is_saved or any(other.size_bytes for other in others):
            return False
        try:
            is_sound = segment.load_indexes() is None
            return is_sound and segment.next_offset() == self.checkpoints.recovery_point
        except LogDamaged:
            return False

    def _load_segment(self, segment: Segment, sound: bool) -> Pieces[int]:
        """Makes a segment ready; returns its end. `sound` trusts its batches."""
        bad = segment.load_indexes() if sound else None
        if sound and bad is None:
            try:
                return segment.next_offset()
            except LogDamaged as error:
                what = "segment is scanned"
                self.env.trace.warn(self.topic_partition, "load_segment", what, error.message)
        elif bad is not None and (segment.size_bytes or bad.reason != MISSING):
            # A log that never had records has no indexes. Recovery makes them anew unasked; where
            # batches are trusted they were durable before, so something took them.
            partition, name = self.topic_partition, offset_name(segment.base_offset) + bad.suffix
            self.env.trace.event(IndexRebuilt(partition=partition, reason=bad.reason, file=name))
        return (yield from self.rebuild(segment))

    def rebuild(self, segment: Segment) -> Pieces[int]:
        """Scans a segment: its indexes are made anew, a torn tail is cut; returns its end. Raises
        `GapFound`, with nothing cut, where a gap may be one that a cleaner has left."""
        next_offset, size_bytes = segment.base_offset, 0
        found: list[tuple[int, int]] = []
        walk = Walk()
        try:
            for batch in segment.rebuild(self.config.index_interval_bytes):
                header = batch.header
                if header.leader_epoch >= 0 and (not found or header.leader_epoch > found[-1][0]):
                    found.append((header.leader_epoch, header.base_offset))
                next_offset = header.last_offset + 1
                size_bytes += header.size_bytes
                if spent := walk.passed(header.size_bytes):
                    yield spent
        except LogDamaged as error:
            is_gap = isinstance(error, GapFound) and self._goes_on(segment, size_bytes)
            if is_gap and self.env.was_compacted(self.topic_partition.topic):
                raise
            if self.is_durable(next_offset):
                raise LogDamaged(error.message, error.base_offset) from None
            segment.file.truncate(size_bytes)
        self.rebuilt_bases.add(segment.base_offset)
        segment.txn_index.reset()
        # The file may be older than the log: the headers replace it, for this segment.
        behind = [entry for entry in self.epochs.entries if entry[1] >= next_offset]
        if segment.batches.contiguous:
            # In a cleaned one the file knows better where an epoch began.
            self.epochs.truncate_from_end(segment.base_offset)
        for epoch, start_offset in (*found, *behind):
            if epoch > self.epochs.latest_epoch:
                self.epochs.assign(epoch, start_offset)
        return next_offset

    def _goes_on(self, segment: Segment, position: int) -> bool:
        """Whether a sound batch lies at that position, and another one follows above its offsets.
        No checksum covers offsets: what a flipped bit has raised looks like a batch behind a gap,
        and only the next one shows that it is none."""
        batches = segment.batches.scan(position)
        try:
            end_offset = next(batches).header.last_offset + 1
            if next(batches, None) is not None:
                return True
        except GapFound:
            return True
        except LogDamaged:
            return False
        return any(each.size_bytes and each.base_offset >= end_offset for each in self.segments)

    def drop_from(self, index: int, reason: str) -> Pieces[None]:
        """Deletes the segments from this one on."""
        for segment in self.segments[index:]:
            base, partition = segment.base_offset, self.topic_partition
            self.env.trace.warn(partition, "drop_from", "dropped", reason, base_offset=base)
            segment.delete()
            yield len(SEGMENT_SUFFIXES) * FILE_DELETION_WORK
        del self.segments[index:]


def epochs_agree(epochs: LeaderEpochCache, segments: list[Segment], log_start_offset: int) -> bool:
    """Whether the epochs are those of the batches at their offsets; there is a batch."""
    last = [segment for segment in segments if segment.size_bytes][-1]
    places = [(last, last.next_offset() - 1)]
    starts = [start for _, start in epochs.entries]
    # Where an epoch begins, and where the one before it ends: no other can lie between.
    looked_for = {log_start_offset, *starts, *(start - 1 for start in starts)}
    for offset in sorted(looked_for - {places[0][1]}):
        covering = [one for one in segments if one.base_offset <= max(offset, 0)]
        if covering and log_start_offset <= offset:
            places.append((covering[-1], offset))
    for segment, offset in places:
        header = segment.header_of(offset)
        if header is None or header.leader_epoch < 0:
            continue
        begins = header.base_offset == offset or offset not in starts
        begins |= offset == log_start_offset
        # A cleaner may have removed the batch that began the epoch.
        begins |= not segment.batches.contiguous
        if not begins or header.leader_epoch != epochs.epoch_at(header.last_offset):
            return False
        if header.leader_epoch != epochs.epoch_at(max(header.base_offset, log_start_offset)):
            return False
    return True

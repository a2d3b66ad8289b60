"""The state of one log: what appending, reading, truncation, rolling and deletion work on.

Four offsets describe a log, all "next offset" style:

    log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset

Records below the high watermark are committed; a leader computes it and followers receive it. The
last stable offset bounds readers that want only decided transactions. A fifth, the recovery
point, is how far the log is known to be durable.

Loading makes the state. Each concern is a module of functions over it; `log.py` puts them together.
"""

from dataclasses import dataclass, field
from typing import Final, Protocol

from tidelog.config import LogConfig
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.log.epoch_cache import LeaderEpochCache
from tidelog.log.file_names import GAPS_FILE
from tidelog.log.flushed_end import FlushedEnd
from tidelog.log.flushing import FlushLedger
from tidelog.log.producer_snapshots import ProducerSnapshots
from tidelog.log.producer_state import ProducerStates
from tidelog.log.segments import SegmentList
from tidelog.log.tail_cache import TailCache
from tidelog.log.values import LogEnv
from tidelog.model import TopicId, TopicPartition

UNCUT: Final = 1 << 63
"""The end of a log that is not to be cut."""


class UnderWay(Protocol):
    """A round of cleaning, as seen by those who change the log beside it."""

    def end_for_cut(self) -> None:
        """The log is about to be cut where the round may have been: it is given up or finished."""


@dataclass(slots=True, kw_only=True, eq=False)
class LogState:
    """One replica of one partition."""

    topic_partition: TopicPartition
    topic_id: TopicId
    """From `partition.metadata`; `ZERO_TOPIC_ID` when that file was lost."""
    config: LogConfig
    """What applies from the next append on; may be replaced at any time."""
    env: LogEnv
    path: str
    """The partition's directory below the disk's root."""
    segments: SegmentList
    epochs: LeaderEpochCache
    """Which epoch wrote which offsets; persisted by its own effects."""
    producers: ProducerStates
    """Sequences and transactions; persisted by snapshots, rebuilt from the log."""
    snapshots: ProducerSnapshots
    """The producer snapshots on disk."""
    log_start_offset: int
    """First offset served, inclusive; only ever rises, except by truncation below it."""
    log_end_offset: int
    """Next offset to write."""
    high_watermark: int
    """Exclusive end of what is known to be committed; checkpointed by the directory."""
    recovery_point: int
    """Exclusive: everything below it is durable. Moved by flushes, lowered by truncation; see
    `move_recovery_point`."""
    tail: TailCache
    """The newest batches, as written."""
    ledger: FlushLedger
    """What is not durable yet."""
    identity_is_unsynced: bool
    """Whether the next flush has to make `partition.metadata` durable as well."""
    announced_end: int = UNCUT
    """Where the log is about to be cut; set by the component that cuts it, for as long as it is.
    Checkpoints claim nothing above it."""
    unflushed_cut: int = UNCUT
    """Where the log was cut that no flush was requested for since: a crash of the machine may bring
    back what was there before."""
    cleaned_to: int = -1
    """Exclusive: below it a cleaner has been; the directory checkpoints it. Not negative wherever
    offsets may be missing between batches, also if it was the leader's cleaner."""
    flushed_end: FlushedEnd | None = None
    """Where the recovery point is noted each time it moves; of a metadata log only."""
    cleaning: "UnderWay | None" = field(default=None, init=False)
    """The round of cleaning that works on the segments, if one does."""
    inspection_work: int = field(default=0, init=False)
    """What looking into clients' batches has taken so far (`limits.REPLICA_WORK_PER_TURN`)."""
    failure: str | None = field(default=None, init=False)
    """Why the log takes no more writes; set when memory and file can no longer agree."""

    @property
    def last_stable_offset(self) -> int:
        """Exclusive end for read_committed readers."""
        unstable = self.producers.first_unstable_offset
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    @property
    def claimed_end(self) -> int:
        """Exclusive: checkpoints may say that everything below it is durable. 0 while no record of
        the log is: then the name of its first segment need not be durable either, and after a
        crash it would be missed (*NoFalseDamage*). Never above an announced cut."""
        end = self.recovery_point
        if self.announced_end < end:
            end = self.announced_end
        return end if end > self.segments.first_base_offset else 0

    @property
    def claimed_cleaning(self) -> int:
        """What checkpoints may say of `cleaned_to`. Never above an announced cut: what is written
        there afterwards has seen no cleaner, and a start that takes it for clean would let a
        tombstone go before what it deletes."""
        return min(self.cleaned_to, self.announced_end)

    @property
    def saved_high_watermark(self) -> int:
        """What checkpoints may say of the high watermark. Never above a cut that is not durable:
        after a crash of the machine it would call the records committed that were cut
        (*CutBeforeMark*). Nor above an announced one: after a kill it would call those committed
        that were written there instead."""
        return min(self.high_watermark, self.unflushed_cut, self.announced_end)

    def update_high_watermark(self, value: int) -> bool:
        """Sets it, clamped to [log start, log end]; returns whether it changed."""
        clamped = max(self.log_start_offset, min(value, self.log_end_offset))
        if clamped == self.high_watermark:
            return False
        self.high_watermark = clamped
        self.producers.on_high_watermark(clamped)
        return True

    def move_recovery_point(self, offset: int) -> None:
        """Everything below `offset` is durable, and no more is known to be."""
        if offset != self.recovery_point:
            self.recovery_point = offset
            if self.flushed_end is not None:
                self.flushed_end.note(offset)

    def note_flushes(self, flushed_end: FlushedEnd) -> None:
        """From now on it is noted there how far the log is durable."""
        self.flushed_end = flushed_end
        flushed_end.note(self.recovery_point)

    def maybe_raise_log_start_offset(self, value: int) -> bool:
        """Raises the log start (DeleteRecords, a snapshot, or the leader's on a follower); the
        files go in a second step. Nothing above the high watermark may go: raises
        OFFSET_OUT_OF_RANGE."""
        if value <= self.log_start_offset:
            return False
        if value > self.high_watermark:
            detail = f"log start `{value}` would pass the high watermark `{self.high_watermark}`"
            raise ProtocolError(ErrorCode.OFFSET_OUT_OF_RANGE, detail)
        self.log_start_offset = value
        self.epochs.truncate_from_start(value)
        return True

    def delete_segments_below(self, offset: int, most: int) -> None:
        """Deletes the oldest segments that end at or below an offset, at most so many, not the
        active one. Above the log start it is for a log that is about to be emptied, and is not
        read any more: its log start stays."""
        for segment in self.segments.drop_below(offset, most):
            segment.delete()
        self.snapshots.drop_outside(self.segments.first_base_offset)

    def set_segments_aside(self, limit: int, most: int) -> list[int]:
        """Takes the oldest segments out that end at or below the log start and the limit, at most
        so many; returns their base offsets. Their files have other names then, which is not durable
        yet, and the caller deletes them (`deleted_files.py`)."""
        dropped = self.segments.drop_below(min(limit, self.log_start_offset), most)
        for segment in dropped:
            segment.close()
            segment.set_aside()
        self.snapshots.set_aside_below(self.segments.first_base_offset)
        return [segment.base_offset for segment in dropped]

    def note_gaps(self) -> None:
        """Offsets are missing between batches from here on, because a cleaner was on the leader.
        Raises `StorageError`."""
        # A start must know of the gaps wherever it finds them. The checkpoint of the cleaner is
        # written later, and has names and no logs. This file outlives a kill as the batches do, and
        # has nothing but a name, so a power cut leaves it once a file beside it was synced.
        self.env.disk.open(f"{self.path}/{GAPS_FILE}", create=True).close()
        self.cleaned_to = max(self.cleaned_to, 0)
        for segment in self.segments:
            segment.batches.contiguous = False

    def check(self) -> None:
        """Asserts every invariant of the log."""
        name = self.topic_partition
        start, end = self.log_start_offset, self.log_end_offset
        stable = self.last_stable_offset
        assert start <= stable <= self.high_watermark, (
            f"StableBelowHighWatermark: {name} {start} <= {stable} <= {self.high_watermark}"
        )
        assert self.high_watermark <= end, f"{name}: {self.high_watermark} > {end}"
        assert 0 <= self.recovery_point <= end, f"{name}: recovery point {self.recovery_point}"
        self.segments.check(name)
        first, last = self.segments.first_base_offset, self.segments.active.base_offset
        assert last <= end, f"{name}: active segment {last} above {end}"
        assert first <= max(start, end), f"{name}: {first} > {start}"
        self.epochs.check(end)
        assert not self.epochs.is_new or self.epochs.epoch_at(self.recovery_point - 1) < 0, (
            f"EpochsBeforeClaim: {name} has no file of {self.epochs.entries}"
        )
        self.producers.check(end)
        self.tail.check(end)

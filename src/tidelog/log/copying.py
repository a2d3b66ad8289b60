"""Copying a log into its future log: what the copy takes over, and up to where the two agree.

The copy is a follower of the original that never leaves the node: it takes whole batches with their
offsets and epochs, and it gives up what the original gives up. The original goes on living while it
is copied. It may be cut at its end (by its leader), begin anew, begin later (by retention), and
after a crash each of the two may have lost its own tail. So before it goes on, the copy is cut back
to the end of the prefix that both have (`reconcile`), which the epochs show: two logs that have the
same epoch at an offset have the same records up to there (`LogMatching`).

What is below the start of the original cannot be compared any more; a copy that would have to be
cut at or below its own start keeps nothing, as a follower's log. Nor does one that begins above the
original: that was cut below its start, or a crash has undone a log start that was saved here.

Compaction of the original would break this: the copy could have a value whose tombstone it misses.
So a log is not cleaned while it moves, and a copy that a start finds of a cleaned one is made anew.
"""

from typing import Final

from tidelog.env.disk import Buffer
from tidelog.log.log import Log
from tidelog.log.reading import as_buffer
from tidelog.log.rolling import write_snapshot
from tidelog.log.tail_cache import TailBudget, TailCache
from tidelog.records.batch import batch_size_at

_ANY_EPOCH: Final = (1 << 31) - 1


def reconcile(future: Log, current: Log, *, anew: bool = False) -> bool:
    """Cuts the copy where it leaves the original, or a few segments from its end on the way there;
    returns whether the two agree now. Raises `StorageError`, and `LogDamaged` where the copy is
    damaged. A copy that a crash finds on the way is one that reads as damaged, and goes. With
    `anew` nothing of it is kept."""
    start = current.log_start_offset
    if anew or not future.log_start_offset <= start < future.log_end_offset:
        return _restart(future, start)
    while future.log_end_offset > future.log_start_offset:
        epoch = future.latest_epoch
        end = current.end_offset_for_epoch(epoch)
        if end.leader_epoch == epoch and end.end_offset >= future.log_end_offset:
            return True
        own = future.end_offset_for_epoch(end.leader_epoch)
        target = own.end_offset
        if own.leader_epoch == end.leader_epoch:
            target = min(target, end.end_offset)
        if not future.log_start_offset < target < future.log_end_offset:
            return _restart(future, start)
        if future.shorten(target):
            return False
        future.truncate_to(target)
    return True


def _restart(future: Log, start: int) -> bool:
    if (future.log_start_offset, future.log_end_offset) != (start, start):
        if future.shorten(-1):
            return False
        future.truncate_fully_and_start_at(start)
    return True


def batch_count(data: Buffer) -> int:
    """How many whole batches these are."""
    count = position = 0
    while size_bytes := batch_size_at(data, position):
        position += size_bytes
        count += 1
    return count


def copy_some(data: Buffer, future: Log) -> None:
    """Appends batches that were read at the copy's end. Raises `StorageError`, and `CorruptBatch`
    for batches that are not sound."""
    future.append_as_follower(data, _ANY_EPOCH)


def read_some(future: Log, current: Log, most_bytes: int) -> Buffer:
    """The batches that the copy lacks, so many bytes, at least one batch. Raises `StorageError`,
    and `LogDamaged` where the original is damaged."""
    end = current.log_end_offset
    found = current.read(future.log_end_offset, most_bytes, end, at_least_one=True)
    return as_buffer(found.chunks)


def follow_bounds(future: Log, current: Log) -> None:
    """Takes over configuration, high watermark, log start, where epochs begin, and that offsets may
    be missing."""
    if future.config is not current.config:
        future.reconfigure(current.config)
    if current.cleaned_to >= 0 and future.cleaned_to < 0:
        future.note_gaps()
    future.update_high_watermark(current.high_watermark)
    if future.log_start_offset < current.log_start_offset <= future.high_watermark:
        future.maybe_raise_log_start_offset(current.log_start_offset)
    if future.log_start_offset == current.log_start_offset:
        future.epochs.take_over(current.epochs, future.log_end_offset)


def is_complete(future: Log, current: Log) -> bool:
    """Whether the copy has all that the original has."""
    return (
        future.log_end_offset == current.log_end_offset
        and future.log_start_offset == current.log_start_offset
        and future.high_watermark == current.high_watermark
    )


def hand_over(current: Log, future: Log) -> None:
    """The copy is complete and takes the log's place: gives it what is in memory only. Producers
    are known there whose records were deleted before the copy was made, and a leader epoch that has
    no record yet."""
    assert is_complete(future, current), f"MovesComplete: {current.topic_partition}"
    cuts = max(current.ledger.truncation_count, future.ledger.truncation_count)
    for epoch, start in current.epochs.entries[-1:]:
        if start == current.log_end_offset:
            future.assign_epoch(epoch, start)
    future.producers = current.producers
    if current.producers.by_id:
        # Also over one that a stop or a start has written of the copy, which knew less.
        write_snapshot(future, future.log_end_offset, anew=True)
    future.ledger.begin_after(cuts)
    future.cleaned_to = max(future.cleaned_to, min(current.cleaned_to, future.log_end_offset))
    future.tail, current.tail = current.tail, TailCache(TailBudget(), 0)

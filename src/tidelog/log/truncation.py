"""Truncation: dropping the end of a log, or all of it, with everything that was derived from it.

A follower cuts what its leader does not have, also below its own high watermark: a deposed leader's
view may have been ahead. Flushes under way are void, because the offsets they cover may be written
again; producer snapshots beyond the cut go at once.

Where cleaning has left offsets out, a cut may fall between two batches. The log ends with the batch
before it then, since a start finds no other end: one that ends below its recovery point would be
taken for damaged. The leader sends what follows, from there on.
"""

from tidelog.limits import MAX_SEGMENTS_CUT_PER_TURN
from tidelog.log.events import LogRestarted, LogTruncated
from tidelog.log.pieces import finish
from tidelog.log.replay import rebuild_producers
from tidelog.log.segment import Segment
from tidelog.log.state import LogState


def truncate_to(state: LogState, offset: int) -> bool:
    """Drops all from `offset` on, also below the high watermark; returns whether it had records.
    The log ends at `offset`, or where the last batch below it ends."""
    assert offset >= 0, f"truncate to {offset}"
    if offset >= state.log_end_offset:
        # A leader that wrote nothing left an epoch that starts at its log end.
        state.epochs.truncate_from_end(state.log_end_offset)
        return False
    state.env.trace.event(
        LogTruncated(
            partition=state.topic_partition,
            offset=offset,
            log_end_offset=state.log_end_offset,
            high_watermark=state.high_watermark,
        )
    )
    if state.segments.first_base_offset > offset:
        truncate_fully_and_start_at(state, offset)
        return True
    offset = end_below(state, offset)
    # Before anything is cut: a process that dies in between must not seem to lack records.
    state.move_recovery_point(min(state.recovery_point, offset))
    state.ledger.on_truncation()
    while state.segments.active.base_offset > offset:
        state.segments.drop_active().delete()
    state.segments.active.truncate_to(offset)
    state.ledger.cut_is_pending = True
    state.tail.truncate_to(offset)
    state.log_end_offset = offset
    state.log_start_offset = min(state.log_start_offset, offset)
    state.unflushed_cut = min(state.unflushed_cut, offset)
    state.cleaned_to = min(state.cleaned_to, offset)
    state.epochs.truncate_from_end(offset)
    state.snapshots.drop_outside(0, offset)
    if not state.producers.maybe_rewind_to(offset):
        finish(
            rebuild_producers(
                state.producers,
                state.env.trace,
                state.segments,
                state.snapshots,
                log_end_offset=offset,
            )
        )
        state.producers.on_high_watermark(min(state.high_watermark, offset))
    state.update_high_watermark(state.high_watermark)
    return True


def shorten(state: LogState, target: int) -> bool:
    """Cuts a few segments off the end, if there are more above the target; returns whether there
    were. For a log that is cut in several turns (`MAX_SEGMENTS_CUT_PER_TURN`)."""
    end = state.segments.first_of_last(MAX_SEGMENTS_CUT_PER_TURN)
    if end <= max(target, state.segments.first_base_offset):
        return False
    truncate_to(state, end)
    return True


def end_below(state: LogState, offset: int) -> int:
    """Where a log ends that is cut at `offset`. A round of cleaning that could put other batches
    there ends first. Raises `LogDamaged` and `StorageError`."""
    if state.cleaning is not None and offset < state.segments.active.base_offset:
        state.cleaning.end_for_cut()
    if (
        state.cleaned_to < 0
        or not state.segments.first_base_offset <= offset < state.log_end_offset
    ):
        return offset
    end = state.segments.covering(offset)[0].end_below(offset)
    return max(end, min(state.log_start_offset, offset))


def truncate_fully_and_start_at(
    state: LogState, offset: int, *, start_is_durable: bool = False
) -> None:
    """Empties the log and makes it begin at `offset`, all its offsets included. For followers below
    their leader's log start and for replicas restored from a snapshot.

    Only the name of the new segment says where the log begins, so the recovery point is below it
    until a flush has made the name durable. After a power cut the log would begin at 0, and a
    leader with it would use offsets again (seed 109159278). With `start_is_durable` something else
    on the disk says it, as a snapshot does. Then that name is durable before the last segment goes
    in whose place the snapshot is: a start that finds none would miss what was durable."""
    _forget_cleaning(state, offset)
    state.move_recovery_point(0)
    state.ledger.on_truncation()
    # The segments below stay until the new one's name is durable.
    kept_below = offset if start_is_durable else 0
    for segment in state.segments:
        if segment.base_offset >= kept_below:
            segment.delete()
    state.snapshots.drop_outside(0, -1)
    begun = Segment(state.env.disk, state.path, offset, state.config)
    begun.batches.contiguous &= state.cleaned_to < 0
    if start_is_durable:
        state.env.disk.sync(begun.file)
    for segment in state.segments:
        if segment.base_offset < kept_below:
            segment.delete()
    state.segments.restart(begun)
    state.tail.clear()
    state.epochs.clear()
    state.producers.clear(offset)
    state.log_start_offset = state.log_end_offset = offset
    state.high_watermark = offset
    if start_is_durable:
        state.move_recovery_point(offset)
    state.segments.active.dirty = True
    state.unflushed_cut = min(state.unflushed_cut, offset)
    state.env.trace.event(LogRestarted(partition=state.topic_partition, log_end_offset=offset))


def _forget_cleaning(state: LogState, offset: int) -> None:
    """A cleaner has been nowhere above the end of the log, and is nowhere below it."""
    if state.cleaning is not None:
        state.cleaning.end_for_cut()
    state.cleaned_to = min(state.cleaned_to, offset)

"""Reading what lies in the segments of one log, and not believing it unseen.

A read that meets something wrong has met a wrong index or a wrong log file. Indexes are made anew
from the log by a full scan of the segment, which checks every batch; so after that either the read
succeeds, or `LogDamaged` says that it is the log.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from tidelog.errors import LogDamaged
from tidelog.log.epoch_cache import LeaderEpochCache
from tidelog.log.segment import ReadWindow, Segment
from tidelog.log.values import LogRead

T = TypeVar("T")


def read_segments(
    segments: Sequence[Segment],
    offset: int,
    max_bytes: int,
    window: ReadWindow,
    *,
    at_least_one: bool,
) -> LogRead:
    """Whole batches from the one that holds `offset`; the first segment covers it.

    Raises `LogDamaged`.
    """
    for segment in segments:
        if segment.base_offset >= window.upper_offset:
            break
        position = segment.locate(offset)
        if position is not None:
            return segment.read(position, offset, max_bytes, window, at_least_one)
        if segment.contiguous:
            raise segment.damaged(f"offset `{offset}` is missing")
    return LogRead([], 0, offset, offset)


def look(
    segments: Sequence[Segment],
    index_interval_bytes: int,
    look_once: Callable[[], T],
    on_rebuilt: Callable[[str], None],
) -> T:
    """Looks at the files; when they disagree, once more with the index made anew.

    Raises `LogDamaged` when it is not the index that is wrong.
    """
    try:
        return look_once()
    except LogDamaged as error:
        cause = error
    for segment in segments:
        if segment.base_offset == cause.base_offset:
            segment.reindex(index_interval_bytes)
    found = look_once()
    on_rebuilt(cause.message)
    return found


def verify(segments: Sequence[Segment], epochs: LeaderEpochCache, log_end_offset: int) -> None:
    """Reads every batch. Raises `LogDamaged` at the first that is not what was written."""
    ends = [*(segment.base_offset for segment in segments[1:]), log_end_offset]
    for segment, end in zip(segments, ends, strict=True):
        next_offset = segment.base_offset
        for batch in segment.scan():
            segment.check_epoch(batch.header, epochs)
            next_offset = batch.header.last_offset + 1
        if segment.contiguous and next_offset != end:
            raise segment.damaged(f"it ends at {next_offset}, not at {end}")

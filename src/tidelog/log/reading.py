"""Reading what lies in the segments of one log, and checking it.

A read that meets something wrong has met a wrong index or a wrong log file. Indexes are made anew
from the log by a full scan of the segment, which checks every batch; so after that either the read
succeeds, or raises `LogDamaged`, because it is the log that is wrong.
"""

from collections.abc import Callable
from typing import TypeVar

from tidelog.errors import LogDamaged
from tidelog.log.batch_file import ReadWindow
from tidelog.log.lookup import find_max_timestamp, find_timestamp
from tidelog.log.state import LogState
from tidelog.log.txn_index import AbortedTxn
from tidelog.log.values import LogRead, TimestampedOffset
from tidelog.wire.fetch import AbortedTransaction

T = TypeVar("T")


def read_segments(
    state: LogState, offset: int, max_bytes: int, upper_offset: int, at_least_one: bool
) -> LogRead:
    """Whole batches from the one that holds `offset`, from the disk.

    Raises `LogDamaged`.
    """
    window = ReadWindow(upper_offset, state.log_end_offset, state.epochs)

    def read_once() -> LogRead:
        for segment in state.segments.covering(offset):
            if segment.base_offset >= upper_offset:
                break
            position = segment.locate(offset)
            if position is not None:
                return segment.batches.read(position, offset, max_bytes, window, at_least_one)
            if segment.batches.contiguous:
                raise segment.batches.damaged(f"offset `{offset}` is missing")
        return LogRead([], 0, offset, offset)

    return _look(state, read_once)


def offset_for_timestamp(state: LogState, timestamp: int) -> TimestampedOffset | None:
    """The first record at or after `timestamp`; `None` when all are older."""
    start = state.log_start_offset
    return _look(state, lambda: find_timestamp(state.segments, timestamp, start))


def max_timestamp(state: LogState) -> TimestampedOffset | None:
    """The first record with the largest timestamp; `None` in an empty log."""
    return _look(state, lambda: find_max_timestamp(state.segments, state.log_start_offset))


def aborted_in(state: LogState, start: int, upper: int) -> list[AbortedTransaction]:
    """Aborted transactions that touch [start, upper), ascending by their abort."""
    found: list[AbortedTxn] = []
    for segment in state.segments.covering(start):
        if segment.txn_index.collect(start, upper, found):
            break
    return [AbortedTransaction(txn.producer_id, txn.first_offset) for txn in found]


def verify(state: LogState) -> None:
    """Reads every batch. Raises `LogDamaged` at the first that is not what was written."""
    segments = list(state.segments)
    ends = [*(segment.base_offset for segment in segments[1:]), state.log_end_offset]
    for segment, end in zip(segments, ends, strict=True):
        next_offset = segment.base_offset
        for batch in segment.batches.scan():
            segment.batches.check_epoch(batch.header, state.epochs)
            next_offset = batch.header.last_offset + 1
        if segment.batches.contiguous and next_offset != end:
            raise segment.batches.damaged(f"it ends at {next_offset}, not at {end}")


def _look(state: LogState, look_once: Callable[[], T]) -> T:
    """Looks at the files; when they disagree, once more with the index made anew.

    Raises `LogDamaged` when it is not the index that is wrong.
    """
    try:
        return look_once()
    except LogDamaged as error:
        cause = error
    for segment in state.segments:
        if segment.base_offset == cause.base_offset:
            segment.reindex(state.config.index_interval_bytes)
    found = look_once()
    state.env.trace.warn(state.topic_partition, "look", "index rebuilt", cause.message)
    return found

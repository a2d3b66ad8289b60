"""Reading one log: batches by offset, records by time, aborted transactions; and checking it.

The newest batches are in memory. A read that meets something wrong on the disk has met a wrong
index or a wrong log file. Indexes are made anew from the log by a full scan of the segment, which
checks every batch; so after that either the read succeeds, or raises `LogDamaged`, because it is
the log that is wrong.

`ListOffsets` asks for the first record at or after a time, or for the record with the largest
timestamp. Timestamps in a log need not ascend, which is why the time index stores the largest
*so far* and the scan goes on from there by each batch's largest timestamp. It has no checksum; the
batch that an entry names shows whether the entry is right. When the body of the batch that is found
cannot be read (its header is wrong), the answer is the batch's base offset.

Source: KIP-33, KIP-734.
"""

from collections.abc import Callable
from typing import TypeVar

from tidelog.env.disk import Buffer, FileSlice
from tidelog.env.effects import Chunk
from tidelog.errors import CorruptBatch, ErrorCode, LogDamaged, ProtocolError
from tidelog.limits import MAX_INSPECTED_BATCH_BYTES, MAX_INSPECTED_RECORDS
from tidelog.log.batch_file import LogRead, ReadWindow, ScannedBatch
from tidelog.log.pieces import Pieces, Walk, finish
from tidelog.log.state import LogState
from tidelog.log.txn_index import AbortedTxn
from tidelog.log.values import TimestampedOffset
from tidelog.records.batch import inspected_body
from tidelog.records.survey import first_record
from tidelog.wire.fetch import AbortedTransaction

T = TypeVar("T")


def read(
    state: LogState, offset: int, max_bytes: int, upper_offset: int, *, at_least_one: bool
) -> LogRead:
    """Whole batches from the one that holds `offset`, all below `upper_offset`. At most
    `max_bytes`, but with `at_least_one` the first batch comes whole whatever its size. Raises
    OFFSET_OUT_OF_RANGE below the log start or above the log end, `LogDamaged` when the disk gives
    other bytes than were written."""
    log_end_offset = state.log_end_offset
    if not state.log_start_offset <= offset <= log_end_offset:
        detail = f"offset `{offset}` is not within {state.log_start_offset} to {log_end_offset}"
        raise ProtocolError(ErrorCode.OFFSET_OUT_OF_RANGE, detail)
    upper_offset = min(upper_offset, log_end_offset)
    if offset >= upper_offset:
        return LogRead([], 0, offset, offset)
    cached = state.tail.read(offset, max_bytes, upper_offset, at_least_one)
    if cached is not None:
        return cached
    window = ReadWindow(upper_offset, log_end_offset, state.epochs)

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


def as_buffer(chunks: list[Chunk]) -> Buffer:
    """What was read as one buffer; without copying when it came as one."""
    if len(chunks) == 1 and not isinstance(chunks[0], FileSlice):
        return chunks[0]
    return b"".join(
        chunk.file.read(chunk.position, chunk.length) if isinstance(chunk, FileSlice) else chunk
        for chunk in chunks
    )


def offset_for_timestamp(state: LogState, timestamp: int) -> TimestampedOffset | None:
    """The first record at or after `timestamp`; `None` when all are older. Raises `LogDamaged`."""
    start_offset = state.log_start_offset

    def find_once() -> TimestampedOffset | None:
        for segment in state.segments:
            if segment.max_timestamp < timestamp:
                continue
            indexed = segment.time_index.entry_for(timestamp)
            from_offset = max(indexed[1], segment.base_offset)
            _, position = segment.offset_index.entry_for(from_offset)
            for batch in segment.batches.scan(position):
                header = batch.header
                if indexed[0] >= 0 and header.last_offset >= indexed[1]:
                    if (header.max_timestamp, header.last_offset) != indexed:
                        raise segment.batches.damaged(f"its time index is wrong at {indexed[1]}")
                    indexed = -1, -1
                if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                    found = _first_record(batch, timestamp, start_offset)
                    if found is not None:
                        return found
        return None

    return _look(state, find_once)


def max_timestamp(state: LogState) -> TimestampedOffset | None:
    """The first record with the largest timestamp; `None` in an empty log. Raises `LogDamaged`."""

    def find_once() -> TimestampedOffset | None:
        newest = max(state.segments, key=lambda segment: segment.max_timestamp)
        timestamp = newest.max_timestamp
        position = newest.locate(newest.max_timestamp_offset) if timestamp >= 0 else None
        if position is None:
            return None
        batch = next(newest.batches.scan(position))
        return _first_record(batch, timestamp, state.log_start_offset)

    return _look(state, find_once)


def _first_record(batch: ScannedBatch, timestamp: int, start: int) -> TimestampedOffset | None:
    header = batch.header
    try:
        bounds = MAX_INSPECTED_BATCH_BYTES, MAX_INSPECTED_RECORDS
        body = inspected_body(batch.data, 0, header, *bounds)
        found = first_record(body, header, timestamp, start)
    except CorruptBatch:
        found = header.max_timestamp, max(header.base_offset, start)
    return None if found is None else TimestampedOffset(*found, header.leader_epoch)


def aborted_in(state: LogState, start: int, upper: int) -> list[AbortedTransaction]:
    """Aborted transactions that touch [start, upper), ascending by their abort."""
    found: list[AbortedTxn] = []
    for segment in state.segments.covering(start):
        if segment.txn_index.collect(start, upper, found):
            break
    return [AbortedTransaction(txn.producer_id, txn.first_offset) for txn in found]


def verified(state: LogState) -> Pieces[None]:
    """Reads every batch. Raises `LogDamaged` at the first that is not what was written."""
    segments = list(state.segments)
    ends = [*(segment.base_offset for segment in segments[1:]), state.log_end_offset]
    walk = Walk()
    for segment, end in zip(segments, ends, strict=True):
        next_offset = segment.base_offset
        for batch in segment.batches.scan():
            segment.batches.check_epoch(batch.header, state.epochs)
            next_offset = batch.header.last_offset + 1
            if spent := walk.passed(batch.header.size_bytes):
                yield spent
        if segment.batches.contiguous and next_offset != end:
            raise segment.batches.damaged(f"it ends at {next_offset}, not at {end}")


def verify(state: LogState) -> None:
    """The same, all of it now."""
    finish(verified(state))


def _look(state: LogState, look_once: Callable[[], T]) -> T:
    """Looks at the files; when they disagree, once more with the index made anew. Raises
    `LogDamaged` when it is not the index that is wrong."""
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

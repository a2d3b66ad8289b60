"""Finding records by time: the time index narrows it down, headers decide, one body is opened.

`ListOffsets` asks for the first record at or after a time, or for the record with the largest
timestamp. Timestamps in a log need not ascend, which is why the time index stores the largest
*so far* and the scan goes on from there by each batch's largest timestamp.

The time index has no checksum; the batch that an entry names shows whether the entry is right.

When the body cannot be read (its header is wrong), the answer is the batch's base offset.

Source: KIP-33, KIP-734.
"""

from collections.abc import Iterable

from tidelog.errors import CorruptBatch
from tidelog.log.batch_file import ScannedBatch
from tidelog.log.segment import Segment
from tidelog.log.values import TimestampedOffset
from tidelog.records.batch import decode_body


def find_timestamp(
    segments: Iterable[Segment], timestamp: int, start_offset: int
) -> TimestampedOffset | None:
    """The first record at or above `start_offset` whose timestamp reaches `timestamp`."""
    for segment in segments:
        if segment.max_timestamp < timestamp:
            continue
        indexed_timestamp, indexed_offset = segment.time_index.entry_for(timestamp)
        from_offset = max(indexed_offset, segment.base_offset)
        _, position = segment.offset_index.entry_for(from_offset)
        for batch in segment.batches.scan(position):
            header = batch.header
            if indexed_timestamp >= 0 and header.last_offset >= indexed_offset:
                if (header.max_timestamp, header.last_offset) != (
                    indexed_timestamp,
                    indexed_offset,
                ):
                    raise segment.batches.damaged(f"its time index is wrong at {indexed_offset}")
                indexed_timestamp = -1
            if header.max_timestamp < timestamp or header.last_offset < start_offset:
                continue
            found = _first_record(batch, timestamp, start_offset)
            if found is not None:
                return found
    return None


def find_max_timestamp(segments: Iterable[Segment], start_offset: int) -> TimestampedOffset | None:
    """The first record that has the largest timestamp of all."""
    filled = [segment for segment in segments if segment.max_timestamp >= 0]
    if not filled:
        return None
    newest = max(filled, key=lambda segment: segment.max_timestamp)
    position = newest.locate(newest.max_timestamp_offset)
    if position is None:
        return None
    for batch in newest.batches.scan(position):
        return _first_record(batch, newest.max_timestamp, start_offset)
    return None


def _first_record(
    batch: ScannedBatch, timestamp: int, start_offset: int
) -> TimestampedOffset | None:
    header = batch.header
    try:
        for record in decode_body(batch.data, 0, header):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return TimestampedOffset(record.timestamp, record.offset, header.leader_epoch)
    except CorruptBatch:
        offset = max(header.base_offset, start_offset)
        return TimestampedOffset(header.max_timestamp, offset, header.leader_epoch)
    return None

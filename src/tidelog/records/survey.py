"""What a broker wants to know of all the records of a batch, found in one pass.

Where a leader looks inside a batch (`log/validation.py`), it asks four questions of the records:
is each at its place, has each a key, are the timestamps within a range, and which is the largest.
A pass answers all of them, and keeps nothing but the answers: two hundred thousand records as
objects would be collected, and given back all at once, while no other thread of Python runs.

For the same reason a pass rests: it calls the `rest` that it is given every `STRIDE` records, so
that a thread beside the loop can let the loop have the interpreter (`runtime/computing.py`).

Each list of faults ends at `limits.MAX_RECORD_ERRORS`.
"""

from typing import Final, NamedTuple, cast

from tidelog.env.effects import Rest
from tidelog.errors import CorruptBatch
from tidelog.limits import MAX_RECORD_ERRORS
from tidelog.model import NO_TIMESTAMP
from tidelog.records.batch import BatchHeader
from tidelog.records.record import decode_record, decode_varint

STRIDE: Final = 64
"""How many records are passed between two rests: some ten microseconds."""

_TIMES_END: Final = 1 << 63
"""What no timestamp reaches; the sum of a base and a delta may."""
_LONG: Final = 0x80
"""The bit of a number's byte that more of it follow."""
_NOT_SMALL: Final = _LONG | 1
"""The same, and the one that it is negative."""

Times = tuple[int, int]
"""The oldest and the newest timestamp that a record may have."""


class Survey(NamedTuple):
    """The answers."""

    max_timestamp: int
    misplaced: tuple[int, int] | None
    """The first record that is not at its place: which one it is, and which one it says."""
    keyless: list[int]
    """Records without a key."""
    untimely: list[tuple[int, int]]
    """Records whose timestamp is not within the range, and their timestamps."""


def survey_records(
    body: bytes | memoryview, header: BatchHeader, times: Times | None, rest: Rest
) -> Survey:
    """Passes all records of a batch whose inflated body is `body`; without `times` none is
    untimely. Raises `CorruptBatch` for what is not exactly the number of records in the header."""
    data, position = cast(bytes, body), 0
    base_timestamp = header.base_timestamp
    fixed_timestamp = header.max_timestamp if header.is_log_append_time else None
    oldest, newest = times or (0, 0)
    max_timestamp: int | None = None
    misplaced: tuple[int, int] | None = None
    keyless: list[int] = []
    untimely: list[tuple[int, int]] = []
    for index in range(header.record_count):
        if not index % STRIDE:
            rest()
        delta, place, has_key, position = pass_record(data, position)
        timestamp = base_timestamp + delta if fixed_timestamp is None else fixed_timestamp
        if max_timestamp is None or timestamp > max_timestamp:
            max_timestamp = timestamp
        if place != index and misplaced is None:
            misplaced = index, place
        if not has_key and len(keyless) < MAX_RECORD_ERRORS:
            keyless.append(index)
        is_untimely = times and not oldest <= timestamp <= newest and timestamp != NO_TIMESTAMP
        if is_untimely and len(untimely) < MAX_RECORD_ERRORS:
            untimely.append((index, timestamp))
    if position != len(body):
        behind_bytes = len(body) - position
        raise CorruptBatch(f"{behind_bytes} bytes after the last of {header.record_count} records")
    assert max_timestamp is not None, "a batch without records has been refused"
    return Survey(max_timestamp, misplaced, keyless, untimely)


def first_record(
    body: bytes | memoryview, header: BatchHeader, timestamp: int, offset: int
) -> tuple[int, int] | None:
    """Timestamp and offset of the first record that is neither older nor below; `None` when there
    is none. Raises `CorruptBatch`."""
    data, position = cast(bytes, body), 0
    fixed_timestamp = header.max_timestamp if header.is_log_append_time else None
    for _ in range(header.record_count):
        delta, place, _, position = pass_record(data, position)
        at = header.base_timestamp + delta if fixed_timestamp is None else fixed_timestamp
        if at >= timestamp and header.base_offset + place >= offset:
            if at >= _TIMES_END:
                raise CorruptBatch(f"timestamp {at} of a record")
            return at, header.base_offset + place
    return None


def pass_record(data: bytes, position: int) -> tuple[int, int, bool, int]:
    """Timestamp and offset of a record as deltas, whether it has a key, and where the next one
    begins. Raises `CorruptBatch`.

    A batch has many records only if they are small. One whose lengths have a byte each, without
    headers, takes a third of the time here; any other, and what is none, is left to
    `decode_record`.
    """
    try:
        length = data[position]
        if not length & _NOT_SMALL:
            delta, at = data[position + 2], position + 3
            if delta < _LONG:
                delta = (delta >> 1) ^ -(delta & 1)
            else:
                delta, at = decode_varint(data, position + 2)
            place, at = decode_varint(data, at)
            key = data[at]
            at += 1 if key & 1 else 1 + (key >> 1)
            value = data[at]
            at += 1 if value & 1 else 1 + (value >> 1)
            end = position + 1 + (length >> 1)
            if at + 1 == end and not data[at] and (key | value) < _LONG:
                return delta, place, not key & 1, end
    except (IndexError, CorruptBatch):
        pass
    delta, place, whole_key, _, _, end = decode_record(data, position)
    return delta, place, whole_key is not None, end

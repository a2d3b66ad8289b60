"""Many records of one layout at once: what a cleaner needs of them, taken by columns.

Producers write records of one size one behind the other, with the same length of key. Then the
fields of such a *run* stand at the same places of pieces of one size, and a slice with that step is
a column: the first bytes of all lengths, of all key lengths. Whether a column is the same
throughout, how many records have it so, and the keys of all of them are answered by single calls
that loop in C. A record costs a tenth of a microsecond so, and half of one when it is walked
(`walking.py`).

Records of several sizes have their keys at the same places of their *heads*, the bytes up to the
first one of the value. `key_runs` puts these one behind the other, and takes the columns of that: a
third of a microsecond.

Timestamps and offsets differ within a run; the number of their bytes does not, so a run ends where
it grows: at the 65th record of a batch, and seldom after that.

Source: the layout in `record.py`.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from operator import sub
from struct import Struct
from typing import Final, NamedTuple

from tidelog.errors import CorruptBatch
from tidelog.records.record import decode_varint

LEAST_RECORDS: Final = 8
"""On average, or the runs of a batch cost more than walking."""
_TRIED_RUNS: Final = 4
_KEYS_AT_ONCE: Final = 16
_CONTINUES: Final = bytes(byte >> 7 for byte in range(256))
"""For `translate`: 1 where another byte of the varint follows."""
_IS_NULL: Final = bytes(byte == 1 for byte in range(256))
"""The same: 1 for the first byte of a length of -1."""
_NOWHERE: Final = -(1 << 40)
_BEHIND: Final = [
    _NOWHERE if low & 1 else 1 + (low >> 1) if low < 128 else 2 + ((low & 127) >> 1)
    for low in range(256)
]
"""By the first byte of its length: how far the end of a record is from its start, but for what the
second byte says. A negative length leads nowhere."""
_DENSE_1: Final = bytes(range(0, 128, 2))
"""The offset deltas 0 to 63, as varints of one byte."""
_DENSE_2_LOW: Final = bytes(delta << 1 & 127 | 128 for delta in range(1 << 13))
_DENSE_2_HIGH: Final = bytes(delta >> 6 for delta in range(1 << 13))
"""The two bytes of those below 8,192; those below 64 are never so long."""


class RecordRun(NamedTuple):
    """Records of one layout that follow each other."""

    start: int
    """Of the first one, in the body."""
    size_bytes: int
    """Of each."""
    deltas: Sequence[int]
    """The offset delta of each."""
    key_at: int
    """Where the key is in each."""
    key_bytes: int
    """Of each; -1 if they have none."""
    has_values: bool

    @property
    def has_keys(self) -> bool:
        """Whether they have keys; they may be empty."""
        return self.key_bytes >= 0

    @property
    def end(self) -> int:
        """The byte after the last one."""
        return self.start + self.size_bytes * len(self.deltas)


class Irregular(Exception):
    """Runs do not say what is in a body; walking does, or says what is wrong with it."""


def runs_of(body: bytes, count: int, most: int, pos: int = 0) -> Iterator[RecordRun]:
    """The `count` records that fill an inflated body from `pos` on, as runs of at most so many.
    Raises `Irregular`, perhaps after some of them, where they are too short or do not fill it."""
    done = number = 0
    while done < count:
        run = _run_at(body, pos, min(count - done, most), _layout_at(body, pos))
        yield run
        pos, done, number = run.end, done + len(run.deltas), number + 1
        _check_length(number, done)
    if pos != len(body):
        raise Irregular


def key_runs(body: bytes, count: int, most: int, pos: int = 0) -> Iterator[tuple[RecordRun, bytes]]:
    """The same, each run with the bytes that it is in, for who asks only for keys, offsets, and
    whether there are values. The bytes are the body, or the heads of records of several sizes."""
    done = number = 0
    while done < count:
        left = min(count - done, most)
        run = _run_at(body, pos, left, _layout_at(body, pos))
        if len(run.deltas) < min(left, LEAST_RECORDS):
            bounds = _bounds(body, pos, left)
            for run, heads in _runs_of_heads(body, bounds):
                yield run, heads
                number += 1
            pos, done = bounds[-1], done + left
        else:
            yield run, body
            pos, done, number = run.end, done + len(run.deltas), number + 1
        _check_length(number, done)
    if pos != len(body):
        raise Irregular


def _check_length(number: int, done: int) -> None:
    if number >= _TRIED_RUNS and done < number * LEAST_RECORDS:
        raise Irregular


def offsets_of(run: RecordRun, base_offset: int) -> Sequence[int]:
    """The offset of each record of a batch that begins at this one."""
    deltas = run.deltas
    if isinstance(deltas, range):
        return range(base_offset + deltas.start, base_offset + deltas.stop)
    return [base_offset + delta for delta in deltas]


def keys_of(run: RecordRun, body: bytes) -> list[bytes]:
    """The key of each record of a run with keys."""
    several = _key_form(run.key_at, run.key_bytes, run.size_bytes, _KEYS_AT_ONCE)
    single = _key_form(run.key_at, run.key_bytes, run.size_bytes, 1)
    cut = run.end - (run.end - run.start) % several.size
    with memoryview(body) as view:
        keys = list(chain.from_iterable(several.iter_unpack(view[run.start : cut])))
        keys.extend(chain.from_iterable(single.iter_unpack(view[cut : run.end])))
    return keys


def timestamps_of(body: bytes, start: int, stop: int, size_bytes: int) -> list[int]:
    """The timestamp deltas of records of one run, which need not be all of it."""
    _, place = decode_varint(body, start)
    _, after = decode_varint(body, place + 1)
    return _column(body, place + 1, after, stop, size_bytes)


class _Layout(NamedTuple):
    """Of one record: how far from its first byte is what."""

    after_length: int
    after_timestamp: int
    after_delta: int
    after_key_length: int
    value_at: int
    end: int
    key_bytes: int


def _layout_at(body: bytes, start: int) -> _Layout:
    """Raises `Irregular` for bytes that are not a record."""
    try:
        length, after_length = decode_varint(body, start)
        _, after_timestamp = decode_varint(body, after_length + 1)
        _, after_delta = decode_varint(body, after_timestamp)
        key_bytes, after_key_length = decode_varint(body, after_delta)
    except CorruptBatch:
        raise Irregular from None
    value_at = after_key_length + max(0, key_bytes)
    end = after_length + length
    if not after_length < end or value_at >= len(body):
        raise Irregular
    return _Layout(
        after_length - start,
        after_timestamp - start,
        after_delta - start,
        after_key_length - start,
        value_at - start,
        end - start,
        key_bytes,
    )


def _run_at(body: bytes, start: int, most: int, layout: _Layout, head_bytes: int = 0) -> RecordRun:
    """The run that begins with the record of this layout; with `head_bytes` of heads of that
    size."""
    size_bytes = head_bytes or layout.end
    if layout.value_at >= size_bytes:
        raise Irregular
    same = [*range(layout.after_delta, layout.after_key_length)]
    varying = [*range(layout.after_length + 1, layout.after_delta)]
    (varying if head_bytes else same).extend(range(layout.after_length))
    alike = min(most, (len(body) - start) // size_bytes)
    for place in same:
        alike = _alike(body[start + place : start + alike * size_bytes : size_bytes])
    for place in varying:
        column = body[start + place : start + alike * size_bytes : size_bytes]
        alike = _alike(column.translate(_CONTINUES))
    nulls = body[start + layout.value_at : start + alike * size_bytes : size_bytes]
    nulls = nulls.translate(_IS_NULL)
    alike = _alike(nulls)
    if not alike:
        raise Irregular
    stop = start + alike * size_bytes
    place, after = start + layout.after_timestamp, start + layout.after_delta
    deltas = _deltas(body, place, after, stop, size_bytes)
    key_at, key_bytes = layout.after_key_length, max(-1, layout.key_bytes)
    return RecordRun(start, size_bytes, deltas, key_at, key_bytes, not nulls[0])


def _runs_of_heads(body: bytes, bounds: list[int]) -> Iterator[tuple[RecordRun, bytes]]:
    """The runs of the heads of the records between these bounds, each with its heads."""
    least_bytes = min(map(sub, bounds[1:], bounds))
    begin, end = 0, len(bounds) - 1
    while begin < end:
        start = bounds[begin]
        layout = _layout_at(body, start)
        head_bytes = layout.value_at + 1
        if layout.after_length > 2 or head_bytes > least_bytes:
            raise Irregular
        stop = end
        if layout.after_delta == layout.after_timestamp + 1:
            # The offsets behind the 64th have two bytes.
            stop = min(end, begin + 64 - (body[start + layout.after_timestamp] >> 1))
        heads = b"".join([body[at : at + head_bytes] for at in bounds[begin:stop]])
        run = _run_at(heads, 0, stop - begin, layout, head_bytes)
        yield run, heads
        begin += len(run.deltas)


def _bounds(body: bytes, pos: int, count: int) -> list[int]:
    """Where so many records begin whose lengths have one byte or two, and where the last one ends.
    A longer length leads astray behind its record, and does not look like those before it."""
    bounds = [pos]
    try:
        for _ in range(count):
            low = body[pos]
            pos += _BEHIND[low] if low < 128 else _BEHIND[low] + (body[pos + 1] << 6)
            bounds.append(pos)
    except IndexError:
        raise Irregular from None
    if pos > len(body):
        raise Irregular
    return bounds


def _alike(column: bytes) -> int:
    """How many bytes at the beginning are the same."""
    return len(column) - len(column.lstrip(column[:1]))


@lru_cache(maxsize=128)
def _key_form(before: int, key_bytes: int, size_bytes: int, count: int) -> Struct:
    return Struct(f"{before}x{key_bytes}s{size_bytes - before - key_bytes}x" * count)


def _deltas(body: bytes, place: int, after: int, stop: int, size_bytes: int) -> Sequence[int]:
    """The offset deltas; a range where none is missing."""
    first, _ = decode_varint(body, place)
    column = body[place:stop:size_bytes]
    dense = slice(first, first + len(column))
    highs = body[place + 1 : stop : size_bytes]
    match after - place:
        case 1:
            is_dense = column == _DENSE_1[dense]
        case 2:
            is_dense = column == _DENSE_2_LOW[dense] and highs == _DENSE_2_HIGH[dense]
        case _:
            is_dense = False
    if is_dense:
        return range(dense.start, dense.stop)
    return _column(body, place, after, stop, size_bytes)


def _column(body: bytes, place: int, after: int, stop: int, size_bytes: int) -> list[int]:
    """The varints between two places of each record, which have one width."""
    if after - place == 1:
        return [(byte >> 1) ^ -(byte & 1) for byte in body[place:stop:size_bytes]]
    if after - place == 2:
        lows, highs = body[place:stop:size_bytes], body[place + 1 : stop : size_bytes]
        folded = [high << 7 | low & 127 for low, high in zip(lows, highs, strict=True)]
        return [(each >> 1) ^ -(each & 1) for each in folded]
    return [decode_varint(body, at)[0] for at in range(place, stop, size_bytes)]

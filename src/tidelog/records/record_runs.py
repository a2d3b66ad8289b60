"""Many records of one layout at once: what a cleaner needs of them, taken by columns.

Producers write records of one size one behind the other, with the same length of key. Then the
fields of such a *run* stand at the same places of pieces of one size, and a slice with that step is
a column: the first bytes of all lengths, of all key lengths. Whether a column is the same
throughout, how many records have it so, and the keys of all of them are answered by single calls
that loop in C. A record costs a tenth of a microsecond so, and one to two when it is walked
(`walking.py`).

Timestamps and offsets differ within a run; the number of their bytes does not, so a run ends where
it grows: at the 65th record of a batch, and seldom after that.

Source: the layout in `record.py`.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
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


def find_runs(body: bytes, count: int, most: int) -> list[RecordRun] | None:
    """The `count` records that fill an inflated body, as runs of at most so many; `None` where the
    runs are too short, or something is not as it should be: walking says what it is."""
    runs: list[RecordRun] = []
    pos, done = 0, 0
    try:
        while done < count:
            run = _run_at(body, pos, min(count - done, most))
            if run is None:
                return None
            runs.append(run)
            pos, done = run.end, done + len(run.deltas)
            if len(runs) >= _TRIED_RUNS and done < len(runs) * LEAST_RECORDS:
                return None
    except (IndexError, CorruptBatch):
        return None
    return runs if pos == len(body) else None


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


def _run_at(body: bytes, start: int, most: int) -> RecordRun | None:
    """The run that begins with this record."""
    length, after_length = decode_varint(body, start)
    _, after_timestamp = decode_varint(body, after_length + 1)
    _, after_delta = decode_varint(body, after_timestamp)
    key_bytes, after_key_length = decode_varint(body, after_delta)
    size_bytes = after_length - start + length
    value_at = after_key_length + max(0, key_bytes)
    if length < 1 or value_at >= start + size_bytes:
        return None
    alike = min(most, (len(body) - start) // size_bytes)
    same = (*range(start, after_length), *range(after_delta, after_key_length), value_at)
    for place in same:
        alike = _alike(body[place : start + alike * size_bytes : size_bytes])
    for place in range(after_length + 1, after_delta):
        column = body[place : start + alike * size_bytes : size_bytes]
        alike = _alike(column.translate(_CONTINUES))
    if not alike:
        return None
    stop = start + alike * size_bytes
    deltas = _deltas(body, after_timestamp, after_delta, stop, size_bytes)
    key_at = after_key_length - start
    return RecordRun(start, size_bytes, deltas, key_at, max(-1, key_bytes), body[value_at] != 1)


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

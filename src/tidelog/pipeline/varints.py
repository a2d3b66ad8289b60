"""Zig-zag varints and record boundaries, many at a time.

A Kafka record begins with its own length, so the boundaries of a batch's records are a chain: the
only way to the third record leads through the second. Everything behind the boundaries can be
read for all records at once. Three ways to follow the chain, all exact, chosen by shape:

- *abreast*: all batches advance one record per step, numpy reading one length from each. Best for
  many batches with few records, as Java producers make them;
- *in strides*: as long as the length bytes at a fixed stride repeat, the next record is one stride
  on. Best for records of one size;
- *one by one*: a plain loop, for few batches with records of different sizes.

A varint is decoded from the eight bytes that begin at its position, read as one integer: the
lowest clear continuation bit gives its size, three shifts close the gaps between the groups of
seven bits. Longer ones (up to ten bytes) take a slow path.

Reads are clipped to the buffer, so damaged lengths cannot touch foreign memory; the caller that
follows a chain checks where it ends.
"""

from array import array
from itertools import takewhile
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.env.disk import Buffer
from tidelog.errors import CorruptBatch

Int64s = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_WORD_BYTES: Final = 8
_STEP_COST: Final = 80
"""One step abreast costs about as much as this many records one by one."""
_STRIDING_COST: Final = 100
"""And so does a batch of records of one size, in strides."""
_RUNS_OF_EVEN: Final = 4
"""Records of one size make a few runs: their offset and timestamp deltas grow by a byte."""
_TWO_BYTE_EXCESS: Final = 62
"""In a two-byte field the halved first byte counts its continuation bit as 64; two of that are
the size of the field itself, which the step includes."""
_SHORT_RUN: Final = 32
_FIRST_PROBE: Final = 64
"""Strides compared at first; eight times as many after each success."""
_PLAIN_RECORDS: Final = 512
"""Records read one by one after short strides; keeps failed attempts below 10 %."""


def _word(value: int) -> np.uint64:
    return np.uint64(value)


_CONTINUATION: Final = 0x80
_ONE: Final = _word(1)
_CONTINUES: Final = _word(0x8080_8080_8080_8080)
_SIZE_BY_STOP: Final = _word(0x0102_0304_0506_0708)
"""Multiplied with 1 << 8k this has k + 1 in its top byte."""


class RecordBytes:
    """A buffer that can be read at many positions at once."""

    def __init__(self, buffer: Buffer) -> None:
        # The whole buffer, at least one word long so that a word can be read from it.
        self.data: npt.NDArray[np.uint8] = np.frombuffer(buffer, dtype=np.uint8)
        if len(self.data) < _WORD_BYTES:
            self.data = np.pad(self.data, (0, _WORD_BYTES))
        # The same bytes for Arrow arrays to point into.
        self.arrow_buffer = pa.py_buffer(self.data)
        # The last position from which a whole word can be read.
        self._last = len(self.data) - _WORD_BYTES
        # The little-endian word at *every* byte position: a view, eight times overlapping.
        self._words: Words = np.ndarray(
            (self._last + 1,), dtype=np.dtype("<u8"), buffer=self.data, strides=(1,)
        )

    def words_at(self, positions: Int64s) -> Words:
        """The eight bytes from each position as little-endian integers, zeros after the end. A
        position outside the buffer gives some value, never a foreign byte."""
        if not positions.size or (positions.max() <= self._last and positions.min() >= 0):
            return self._words[positions]
        inside = np.clip(positions, 0, self._last)
        beyond = np.clip(positions - inside, 0, _WORD_BYTES - 1).astype(np.uint64)
        words: Words = self._words[inside] >> (beyond * _word(8))
        return words

    def varints_at(self, positions: Int64s) -> tuple[Int64s, Int64s]:
        """The signed integers that begin at `positions`, and the position after each. Raises
        `CorruptBatch` when one does not end within ten bytes."""
        word = self.words_at(positions)
        if not (word & _word(0x80)).any():
            return _zigzag(word & _word(0x7F)), positions + 1
        stops = ~word & _CONTINUES
        stop = stops & (~stops + _ONE)
        sizes = ((stop >> _word(7)) * _SIZE_BY_STOP) >> _word(56)
        word &= stop - _ONE
        word = (word & _word(0x007F007F007F007F)) | ((word & _word(0x7F007F007F007F00)) >> _ONE)
        word = (word & _word(0x00003FFF00003FFF)) | ((word & _word(0x3FFF00003FFF0000)) >> _word(2))
        word = (word & _word(0x000000000FFFFFFF)) | ((word & _word(0x0FFFFFFF00000000)) >> _word(4))
        values = _zigzag(word)
        after = positions + sizes.view(np.int64)
        if not stops.all():
            self._read_longest(np.flatnonzero(stops == 0), positions, values, after)
        return values, after

    def _read_longest(self, rows: Int64s, positions: Int64s, values: Int64s, after: Int64s) -> None:
        """Varints of nine and ten bytes, one by one, into `values` and `after`."""
        for row in rows.tolist():
            position = int(positions[row])
            field = self.data[max(position, 0) : max(position, 0) + 10].tolist()
            size = 1 + sum(1 for _ in takewhile(_CONTINUATION.__le__, field))
            if size > len(field):
                raise CorruptBatch("a varint is longer than ten bytes or leaves the batch")
            unsigned = sum((byte & 0x7F) << 7 * index for index, byte in enumerate(field[:size]))
            unsigned &= 2**64 - 1
            values[row] = unsigned >> 1 ^ -(unsigned & 1)
            after[row] = position + size


def _zigzag(word: Words) -> Int64s:
    """0, 1, 2, 3, … stand for 0, -1, 1, -2, …"""
    signs: Int64s = -(word & _ONE).view(np.int64)
    return (word >> _ONE).view(np.int64) ^ signs


def record_starts(source: RecordBytes, starts: Int64s, ends: Int64s, counts: Int64s) -> Int64s:
    """Where each record's length field begins, batch after batch. `starts` and `ends` bound the
    records of each batch; `counts` is how many there are. Raises `CorruptBatch` when a chain leaves
    the data. The caller checks that each chain ends exactly at its batch's end, because it reads
    the lengths anyway."""
    total = int(counts.sum())
    if total == 0:
        return np.empty(0, dtype=np.int64)
    if _is_abreast_cheaper(source, starts, ends, counts):
        return _walk_abreast(source, starts, counts, total)
    return np.concatenate(
        [
            start + _walk_batch(source.data[start:end].tobytes(), count)
            for start, end, count in zip(
                starts.tolist(), ends.tolist(), counts.tolist(), strict=True
            )
        ]
    )


def _is_abreast_cheaper(source: RecordBytes, starts: Int64s, ends: Int64s, counts: Int64s) -> bool:
    """Compares the costs of the ways, in records that are walked one by one. Whether batches go in
    strides is judged by the longest."""
    longest = int(counts.argmax())
    abreast = int(counts[longest]) * _STEP_COST
    if int(counts.sum()) <= abreast:
        return False
    if len(counts) * _STRIDING_COST >= abreast:
        return True
    body = source.data[starts[longest] : ends[longest]].tobytes()
    position, left = 0, int(counts[longest])
    for _ in range(_RUNS_OF_EVEN):
        run, stride = _equal_stride_run(body, position, left)
        position, left = position + run * stride, left - run
        if not left:
            return False
    return True


def _walk_abreast(source: RecordBytes, starts: Int64s, counts: Int64s, total: int) -> Int64s:
    """All batches advance one record per step; the longest come first, so that those still
    running are always a prefix."""
    order = np.argsort(-counts, kind="stable")
    descending = -counts[order]
    slots = (np.cumsum(counts) - counts)[order]
    cursor = starts[order]
    found = np.empty(total, dtype=np.int64)
    for step in range(int(-descending[0])):
        running = int(np.searchsorted(descending, -step, side="left"))
        cursor = cursor[:running]
        found[slots[:running] + step] = cursor
        cursor = _next_records(source, cursor)
    return found


def _next_records(source: RecordBytes, cursor: Int64s) -> Int64s:
    """Where the records after those at `cursor` begin. Lengths of one and two bytes, which is
    nearly all of them, take a short cut with half the passes."""
    first = source.data.take(cursor, mode="clip").astype(np.int64)
    second = source.data.take(cursor + 1, mode="clip").astype(np.int64)
    is_long = first >= 0x80
    if (is_long & (second >= 0x80)).any():
        lengths, after = source.varints_at(cursor)
        return after + lengths
    halved = first >> 1
    return cursor + np.where(is_long, (second << 6) + halved - _TWO_BYTE_EXCESS, halved + 1)


def _walk_batch(body: bytes, count: int) -> Int64s:
    """Follows one batch's chain, in strides while they last, else one by one."""
    pieces: list[Int64s] = []
    position = 0
    while count:
        run, stride = _equal_stride_run(body, position, count)
        pieces.append(np.arange(position, position + run * stride, stride, dtype=np.int64))
        position += run * stride
        count -= run
        if run < _SHORT_RUN and count:
            found: array[int] = array("q")
            position = _walk_plainly(body, position, min(count, _PLAIN_RECORDS), found)
            pieces.append(np.frombuffer(found, dtype=np.int64))
            count -= len(found)
    return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64)


def _equal_stride_run(body: bytes, position: int, limit: int) -> tuple[int, int]:
    """How many records from `position` on provably have the same length, and their stride. If the
    length field at p gives stride s, the next record begins at p + s; if the same bytes stand
    there, its stride is s as well, and so on. Every s-th byte is one slice, and stripping the
    expected byte from it shows how far it repeats: no loop, and no array per batch."""
    field, stride = _length_field(body, position)
    limit = min(limit, (len(body) - position) // stride)
    run, probe = 1, _FIRST_PROBE
    while run < limit:
        asked = same = min(probe, limit - run)
        begin = position + stride * run
        for index, byte in enumerate(field):
            column = body[begin + index : begin + index + stride * (same - 1) + 1 : stride]
            same -= len(column.lstrip(bytes((byte,))))
            if not same:
                break
        run += same
        if same < asked:
            break
        probe *= 8
    return run, stride


def _length_field(body: bytes, position: int) -> tuple[bytes, int]:
    """The bytes of the length field at `position`, and the size of field and record together.
    Raises `CorruptBatch` when the record does not fit into its batch."""
    end = position
    while end < len(body) and body[end] >= _CONTINUATION:
        end += 1
    field = body[position : end + 1]
    unsigned = sum((byte & 0x7F) << 7 * index for index, byte in enumerate(field[:10]))
    length = unsigned >> 1 ^ -(unsigned & 1)
    stride = len(field) + length
    if length < 0 or len(field) > 10 or position + stride > len(body):
        raise CorruptBatch(f"a record claims {length} bytes, more than its batch has")
    return field, stride


def _walk_plainly(body: bytes, position: int, count: int, found: "array[int]") -> int:
    append = found.append
    try:
        for _ in range(count):
            append(position)
            byte = body[position]
            if byte < 0x80:
                position += (byte >> 1) + 1
                continue
            second = body[position + 1]
            if second < 0x80:
                position += (second << 6) + (byte >> 1) - _TWO_BYTE_EXCESS
                continue
            position = _skip_large(body, position)
    except IndexError as error:
        raise CorruptBatch("a record claims more bytes than its batch has") from error
    return position


def _skip_large(body: bytes, position: int) -> int:
    """The end of a record whose length field takes three bytes or more."""
    length = shift = 0
    while True:
        byte = body[position]
        position += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return position + (length >> 1)

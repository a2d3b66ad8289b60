"""Record batches as columns: one numpy row per batch header, the bodies as one buffer.

A Fetch response and a segment file have the same content: record batches of format v2 back to back.
Only the walk from one length field to the next goes batch by batch; every header field is then
gathered for all batches at once. Record bodies stay where they are, unless a batch of the buffer is
compressed: then all are laid end to end in a buffer of their own, so that the record decoder gets
plain records only.

Invariants: rows are in buffer order; a row is a whole batch. Left out: formats before v2, which
Kafka 4 no longer stores, and anything about topics or offsets wanted. Source: KIP-98.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from crc32c import crc32c
from numpy.lib.stride_tricks import sliding_window_view

from tidelog.env.disk import Buffer
from tidelog.errors import CorruptBatch
from tidelog.records.batch import CODEC_MASK, CRC_START, HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC
from tidelog.records.compression import decompress

Int64s = npt.NDArray[np.int64]

_READ_LENGTH: Final = struct.Struct(">i").unpack_from
_MAGIC_POSITION: Final = 16
_MIN_LENGTH: Final = HEADER_BYTES - LOG_OVERHEAD_BYTES

HEADER_FIELDS: Final = np.dtype([
    ("base_offset", ">i8"), ("batch_length", ">i4"), ("leader_epoch", ">i4"), ("magic", "i1"),
    ("crc", ">u4"), ("attributes", ">i2"), ("last_offset_delta", ">i4"),
    ("base_timestamp", ">i8"), ("max_timestamp", ">i8"), ("producer_id", ">i8"),
    ("producer_epoch", ">i2"), ("base_sequence", ">i4"), ("record_count", ">i4"),
])  # fmt: skip
"""The header on the wire, field by field; numpy reads it without alignment."""


@dataclass(frozen=True, slots=True)
class BatchTable:
    """All whole batches of one buffer, a row each."""

    buffer: Buffer
    positions: Int64s
    """Where each batch begins in `buffer`."""
    headers: npt.NDArray[Any]
    """One `HEADER_FIELDS` row per batch."""
    end: int
    """Position after the last whole batch; what follows is a cut batch, zeros or nothing."""

    def __len__(self) -> int:
        return len(self.positions)

    def field(self, name: str) -> Int64s:
        """One header field of every batch, as native 64-bit integers."""
        return self.headers[name].astype(np.int64)

    @property
    def base_offsets(self) -> Int64s:
        return self.field("base_offset")

    @property
    def last_offsets(self) -> Int64s:
        """The last offset of each batch, inclusive."""
        return self.field("base_offset") + self.field("last_offset_delta")

    @property
    def sizes(self) -> Int64s:
        """The whole size of each batch in bytes, header included."""
        return self.field("batch_length") + LOG_OVERHEAD_BYTES

    def select(self, wanted: npt.NDArray[np.bool_] | slice) -> "BatchTable":
        """The rows where `wanted` is true, or those of a slice, over the same buffer."""
        return BatchTable(self.buffer, self.positions[wanted], self.headers[wanted], self.end)


def read_batches(buffer: Buffer, *, stop_at_damage: bool = False) -> BatchTable:
    """Finds every whole batch in `buffer`. A batch that the end of the buffer cuts off is left
    alone, and so is a zero length field (the preallocated end of an active segment). Bytes that
    cannot be a batch of format v2 raise `CorruptBatch`; with `stop_at_damage` they count as the end
    instead."""
    positions, end = _walk(buffer)
    rows = np.array(positions, dtype=np.int64)
    raw = np.frombuffer(buffer, dtype=np.uint8)
    gathered = sliding_window_view(raw, HEADER_BYTES)[rows] if positions else raw[:0]
    headers = gathered.reshape(-1).view(HEADER_FIELDS)
    strange = np.flatnonzero(headers["magic"] != MAGIC)
    if strange.size:
        sound = int(strange[0])
        rows, headers, end = rows[:sound], headers[:sound], positions[sound]
    if not stop_at_damage and end + HEADER_BYTES <= len(buffer):
        _check_rest(buffer, end)
    return BatchTable(buffer, rows, headers, end)


def _walk(buffer: Buffer) -> tuple[list[int], int]:
    positions: list[int] = []
    size = len(buffer)
    position = 0
    while position + HEADER_BYTES <= size:
        length = _READ_LENGTH(buffer, position + 8)[0]
        following = position + LOG_OVERHEAD_BYTES + length
        if length < _MIN_LENGTH or following > size:
            break
        positions.append(position)
        position = following
    return positions, position


def _check_rest(buffer: Buffer, position: int) -> None:
    """Raises `CorruptBatch` unless the header at `position` may begin a batch, or is not there."""
    length = _READ_LENGTH(buffer, position + 8)[0]
    magic = buffer[position + _MAGIC_POSITION]
    if length != 0 and length < _MIN_LENGTH:
        raise CorruptBatch(f"batch at position {position} claims a length of {length} bytes")
    if length != 0 and magic != MAGIC:
        raise CorruptBatch(f"batch at position {position} has magic {magic}, not {MAGIC}")


def computed_crcs(table: BatchTable) -> Int64s:
    """The CRC-32C of each batch as its bytes are now, whatever its header claims."""
    view = memoryview(table.buffer)
    starts = table.positions.tolist()
    ends = (table.positions + table.sizes).tolist()
    bounds = zip(starts, ends, strict=True)
    crcs = [crc32c(view[start + CRC_START : end]) for start, end in bounds]
    return np.array(crcs, dtype=np.int64)


def check_crcs(table: BatchTable) -> None:
    """Raises `CorruptBatch`, naming the first batch whose bytes do not match its CRC."""
    wrong = np.flatnonzero(computed_crcs(table) != table.field("crc"))
    if wrong.size:
        first = int(wrong[0])
        raise CorruptBatch(
            f"batch with base offset {int(table.base_offsets[first])} at position "
            f"{int(table.positions[first])} does not match its CRC-32C"
        )


@dataclass(frozen=True, slots=True)
class Bodies:
    """The plain records of consecutive batches, in ascending order inside one buffer."""

    table: BatchTable
    """The batches these records belong to, a row each."""
    buffer: Buffer
    starts: Int64s
    """Where each batch's records begin in `buffer`."""
    ends: Int64s
    """Where each batch's records end, exclusive."""


def record_bodies(table: BatchTable, max_bytes: int) -> Iterator[Bodies]:
    """The records of every batch, decompressed where needed, in groups of about `max_bytes`. A
    group is never smaller than one batch, so one huge batch makes one huge group. Raises
    `CorruptBatch` for an unknown codec and for data that does not decompress."""
    if not len(table):
        return
    codecs = table.field("attributes") & CODEC_MASK
    if codecs.any():
        yield from _decompressed(table, codecs.tolist(), max_bytes)
        return
    numbers = np.cumsum(table.sizes) // max_bytes
    view = memoryview(table.buffer)
    for number in np.unique(numbers):
        group = table.select(numbers == number)
        begin = int(group.positions[0])
        ends = group.positions + group.sizes
        body = view[begin : int(ends[-1])]
        yield Bodies(group, body, group.positions - begin + HEADER_BYTES, ends - begin)


def _decompressed(table: BatchTable, codecs: list[int], max_bytes: int) -> Iterator[Bodies]:
    """Lays the plain records of all batches end to end, a new buffer per group."""
    view = memoryview(table.buffer)
    starts = (table.positions + HEADER_BYTES).tolist()
    ends = (table.positions + table.sizes).tolist()
    parts: list[Buffer] = []
    filled = first = 0
    for row, codec in enumerate(codecs):
        body = view[starts[row] : ends[row]]
        parts.append(body if codec == 0 else decompress(codec, bytes(body)))
        filled += len(parts[-1])
        if filled >= max_bytes or row + 1 == len(codecs):
            edges = np.zeros(len(parts) + 1, dtype=np.int64)
            np.cumsum([len(part) for part in parts], out=edges[1:])
            group = table.select(slice(first, row + 1))
            yield Bodies(group, b"".join(parts), edges[:-1], edges[1:])
            parts, filled, first = [], 0, row + 1

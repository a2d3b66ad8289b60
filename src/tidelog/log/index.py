"""The offset index and the time index of one segment: sparse, in memory, written when sealed.

Offset index: (last offset of a batch, position of that batch), 8 bytes an entry on disk with the
offset relative to the segment's base. The stored offset is the *last* of the batch, so a lookup
takes the greatest entry at or below the target and scans forward from its position.

Time index: (largest timestamp so far, last offset of the batch that carried it), 12 bytes.

Kafka maps both files into memory and writes them entry by entry. Here entries live in memory and
the files are written when the segment is sealed or the log closes: after a crash the last segment
is recovered and its indexes are rebuilt anyway, so the entries of an active segment would never
be read back. Bytes and entries of a sealed segment equal Kafka's.

Invariants
- Offsets and positions of the offset index strictly increase; timestamps of the time index
  strictly increase, its offsets never decrease.
- Neither index holds more than `segment.index.bytes`; the time index keeps one slot free for the
  entry that sealing adds.

Source: Kafka's `OffsetIndex` and `TimeIndex` formats.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Final

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12
_TIME_ENTRY: Final = Struct(">qi")


class OffsetIndex:
    """Sparse map from offsets to file positions."""

    __slots__ = ("_base_offset", "_max_entries", "_offsets", "_positions")

    def __init__(self, base_offset: int, max_bytes: int) -> None:
        # Base offset of the segment; stored offsets are relative to it.
        self._base_offset = base_offset
        # `segment.index.bytes` in whole entries.
        self._max_entries = max_bytes // OFFSET_ENTRY_BYTES
        # Relative last offsets of indexed batches, ascending.
        self._offsets = array("i")
        # File positions of the same batches.
        self._positions = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        """Whether the segment must be rolled because no entry fits any more."""
        return len(self._offsets) >= self._max_entries

    @property
    def last_position(self) -> int:
        """Position of the last indexed batch; 0 without entries."""
        return self._positions[-1] if self._positions else 0

    def append(self, last_offset: int, position: int) -> None:
        """Adds the batch at `position` that ends with `last_offset`."""
        relative = last_offset - self._base_offset
        assert not self._offsets or relative > self._offsets[-1], f"{last_offset} not above last"
        self._offsets.append(relative)
        self._positions.append(position)

    def entry_for(self, offset: int) -> tuple[int, int]:
        """(last offset, position) of the last indexed batch that ends at or below `offset`; -1 for
        the offset when the scan begins at the head of the file."""
        index = bisect_right(self._offsets, offset - self._base_offset)
        if not index:
            return -1, 0
        return self._base_offset + self._offsets[index - 1], self._positions[index - 1]

    @property
    def last_entry(self) -> tuple[int, int]:
        """(last offset, position) of the newest entry; (-1, 0) without entries."""
        if not self._offsets:
            return -1, 0
        return self._base_offset + self._offsets[-1], self._positions[-1]

    def entry_below(self, position: int) -> tuple[int, int]:
        """(last offset, position) of the last entry at or below `position`; (-1, 0) without."""
        index = bisect_right(self._positions, position)
        if not index:
            return -1, 0
        return self._base_offset + self._offsets[index - 1], self._positions[index - 1]

    def truncate_to(self, offset: int) -> None:
        """Drops entries at or above `offset`."""
        keep = bisect_left(self._offsets, offset - self._base_offset)
        del self._offsets[keep:]
        del self._positions[keep:]

    def clear(self) -> None:
        """Drops all entries."""
        del self._offsets[:]
        del self._positions[:]

    def encode(self) -> bytes:
        """The file's bytes."""
        pairs = array("i", bytes(OFFSET_ENTRY_BYTES * len(self._offsets)))
        pairs[::2] = self._offsets
        pairs[1::2] = self._positions
        return _big_endian(pairs).tobytes()

    def load(self, data: bytes, log_bytes: int) -> bool:
        """Takes the entries of a file; returns whether they make sense for a log file of
        `log_bytes`. On `False` the index is empty."""
        self.clear()
        if len(data) % OFFSET_ENTRY_BYTES:
            return False
        pairs = array("i")
        pairs.frombytes(data)
        pairs = _big_endian(pairs)
        self._offsets = pairs[::2]
        self._positions = pairs[1::2]
        if _strictly_ascends(self._offsets) and _strictly_ascends(self._positions):
            in_file = not len(self) or self._positions[-1] < log_bytes
            in_range = not len(self) or (self._offsets[0] >= 0 and self._positions[0] >= 0)
            if in_file and in_range:
                return True
        self.clear()
        return False


class TimeIndex:
    """Sparse map from timestamps to offsets."""

    __slots__ = ("_base_offset", "_max_entries", "_offsets", "_timestamps")

    def __init__(self, base_offset: int, max_bytes: int) -> None:
        # Base offset of the segment; stored offsets are relative to it.
        self._base_offset = base_offset
        # `segment.index.bytes` in whole entries.
        self._max_entries = max_bytes // TIME_ENTRY_BYTES
        # Largest timestamp up to each entry, strictly ascending.
        self._timestamps = array("q")
        # Relative last offset of the batch that carried it.
        self._offsets = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        """Whether the segment must be rolled; the last slot belongs to sealing."""
        return len(self._offsets) >= self._max_entries - 1

    @property
    def last_entry(self) -> tuple[int, int]:
        """(timestamp, offset) of the last entry; (-1, base offset) without entries."""
        if not self._offsets:
            return -1, self._base_offset
        return self._timestamps[-1], self._base_offset + self._offsets[-1]

    def maybe_append(self, timestamp: int, offset: int) -> bool:
        """Adds the entry unless its timestamp is not above the last one."""
        if timestamp <= self.last_entry[0]:
            return False
        self._timestamps.append(timestamp)
        self._offsets.append(offset - self._base_offset)
        return True

    def entry_for(self, timestamp: int) -> tuple[int, int]:
        """(timestamp, offset) of the last entry at or below `timestamp`; (-1, base offset) when
        there is none."""
        index = bisect_right(self._timestamps, timestamp)
        if not index:
            return -1, self._base_offset
        return self._timestamps[index - 1], self._base_offset + self._offsets[index - 1]

    def truncate_to(self, offset: int) -> None:
        """Drops entries at or above `offset`."""
        keep = bisect_left(self._offsets, offset - self._base_offset)
        del self._timestamps[keep:]
        del self._offsets[keep:]

    def clear(self) -> None:
        """Drops all entries."""
        del self._timestamps[:]
        del self._offsets[:]

    def encode(self) -> bytes:
        """The file's bytes."""
        return b"".join(map(_TIME_ENTRY.pack, self._timestamps, self._offsets))

    def load(self, data: bytes) -> bool:
        """Takes the entries of a file; returns whether they make sense, else it is empty."""
        self.clear()
        if len(data) % TIME_ENTRY_BYTES:
            return False
        for timestamp, offset in _TIME_ENTRY.iter_unpack(data):
            self._timestamps.append(timestamp)
            self._offsets.append(offset)
        offsets = self._offsets
        ordered = all(offsets[i] <= offsets[i + 1] for i in range(len(offsets) - 1))
        if ordered and _strictly_ascends(self._timestamps) and (not offsets or offsets[0] >= 0):
            return True
        self.clear()
        return False


def _big_endian(values: "array[int]") -> "array[int]":
    if sys.byteorder == "little":
        values.byteswap()
    return values


def _strictly_ascends(values: "array[int]") -> bool:
    return all(values[i] < values[i + 1] for i in range(len(values) - 1))

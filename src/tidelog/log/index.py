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
from itertools import pairwise
from struct import Struct
from typing import Final

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12
_TIME_ENTRY: Final = Struct(">qi")


class _SparseIndex:
    """Entries in two columns of the same length."""

    __slots__ = ("_base_offset", "_max_entries", "_offsets", "_values")

    def __init__(self, base_offset: int, max_entries: int, value_code: str) -> None:
        # Base offset of the segment; stored offsets are relative to it.
        self._base_offset = base_offset
        # The last slot of it is full.
        self._max_entries = max_entries
        # Relative last offset of the batch of each entry.
        self._offsets = array("i")
        # Position of that batch, or the largest timestamp up to it; strictly ascending.
        self._values = array(value_code)

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        """Whether the segment must be rolled because no entry fits any more."""
        return len(self._offsets) >= self._max_entries

    def truncate_to(self, offset: int) -> None:
        """Drops entries at or above `offset`."""
        keep = bisect_left(self._offsets, offset - self._base_offset)
        del self._offsets[keep:], self._values[keep:]

    def clear(self) -> None:
        """Drops all entries."""
        del self._offsets[:], self._values[:]


class OffsetIndex(_SparseIndex):
    """Sparse map from offsets to file positions. An entry is (last offset, position) of a batch, or
    (-1, 0), the head of the file, where there is none."""

    __slots__ = ()

    def __init__(self, base_offset: int, max_bytes: int) -> None:
        super().__init__(base_offset, max_bytes // OFFSET_ENTRY_BYTES, "i")

    def append(self, last_offset: int, position: int) -> None:
        """Adds the batch at `position` that ends with `last_offset`."""
        relative = last_offset - self._base_offset
        assert not self._offsets or relative > self._offsets[-1], f"{last_offset} not above last"
        self._offsets.append(relative)
        self._values.append(position)

    def _entry(self, count: int) -> tuple[int, int]:
        """The last of the first `count` entries."""
        if not count:
            return -1, 0
        return self._base_offset + self._offsets[count - 1], self._values[count - 1]

    def entry_for(self, offset: int) -> tuple[int, int]:
        """The last indexed batch that ends at or below `offset`."""
        return self._entry(bisect_right(self._offsets, offset - self._base_offset))

    def entry_below(self, position: int) -> tuple[int, int]:
        """The last indexed batch that begins at or below `position`."""
        return self._entry(bisect_right(self._values, position))

    @property
    def last_entry(self) -> tuple[int, int]:
        """The newest entry."""
        return self._entry(len(self._offsets))

    def encode(self) -> bytes:
        """The file's bytes."""
        pairs = array("i", bytes(OFFSET_ENTRY_BYTES * len(self._offsets)))
        pairs[::2] = self._offsets
        pairs[1::2] = self._values
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
        offsets, positions = pairs[::2], pairs[1::2]
        if not (_strictly_ascends(offsets) and _strictly_ascends(positions)):
            return False
        if offsets and (positions[-1] >= log_bytes or offsets[0] < 0 or positions[0] < 0):
            return False
        self._offsets, self._values = offsets, positions
        return True


class TimeIndex(_SparseIndex):
    """Sparse map: an entry is (timestamp, offset), and (-1, base offset) where there is none."""

    __slots__ = ()

    def __init__(self, base_offset: int, max_bytes: int) -> None:
        # The last slot belongs to sealing.
        super().__init__(base_offset, max_bytes // TIME_ENTRY_BYTES - 1, "q")

    def _entry(self, count: int) -> tuple[int, int]:
        """The last of the first `count` entries."""
        if not count:
            return -1, self._base_offset
        return self._values[count - 1], self._base_offset + self._offsets[count - 1]

    @property
    def last_entry(self) -> tuple[int, int]:
        """The newest entry."""
        return self._entry(len(self._offsets))

    def maybe_append(self, timestamp: int, offset: int) -> bool:
        """Adds the entry unless its timestamp is not above the last one."""
        if timestamp <= self.last_entry[0]:
            return False
        self._values.append(timestamp)
        self._offsets.append(offset - self._base_offset)
        return True

    def entry_for(self, timestamp: int) -> tuple[int, int]:
        """The last entry at or below `timestamp`."""
        return self._entry(bisect_right(self._values, timestamp))

    def encode(self) -> bytes:
        """The file's bytes."""
        return b"".join(map(_TIME_ENTRY.pack, self._values, self._offsets))

    def load(self, data: bytes) -> bool:
        """Takes the entries of a file; returns whether they make sense, else it is empty."""
        self.clear()
        if len(data) % TIME_ENTRY_BYTES:
            return False
        entries = list(_TIME_ENTRY.iter_unpack(data))
        timestamps = array("q", [timestamp for timestamp, _ in entries])
        offsets = array("i", [offset for _, offset in entries])
        ordered = all(one <= next_one for one, next_one in pairwise(offsets))
        if not (ordered and _strictly_ascends(timestamps)) or (offsets and offsets[0] < 0):
            return False
        self._offsets, self._values = offsets, timestamps
        return True


def _big_endian(values: "array[int]") -> "array[int]":
    if sys.byteorder == "little":
        values.byteswap()
    return values


def _strictly_ascends(values: "array[int]") -> bool:
    return len(values) < 2 or all(one < next_one for one, next_one in pairwise(values))

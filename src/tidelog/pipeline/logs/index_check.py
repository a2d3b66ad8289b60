"""Do the index files of a segment point to the right batches?

An index entry is a shortcut and not data: a wrong one loses nothing, but a reader that follows it
misses records or finds none. An entry is right if lookups by it are:

- offset index, (offset, position): at `position` a batch begins, and its base offset is at most
  `offset`, so that a reader that looks for `offset` or more and starts there skips nothing; both
  ascend.
- time index, (timestamp, offset): the batch that holds `offset` has this maximal timestamp; both
  ascend.

Index files may be preallocated: they end at the first entry that is all zeros (no real entry is:
the first one points behind the first batch).
Source: Kafka's `OffsetIndex` and `TimeIndex`, whose entries hold offsets relative to the segment's.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidelog.pipeline.batches import BatchTable
from tidelog.pipeline.varints import Int64s

_OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


@dataclass(frozen=True, slots=True)
class SegmentIndexes:
    """The entries of one segment's index files, offsets absolute."""

    offsets: Int64s
    positions: Int64s
    times: Int64s
    time_offsets: Int64s

    @classmethod
    def read(cls, segment: Path) -> "SegmentIndexes":
        """Reads the files beside the `.log` file; a missing one has no entries."""
        base_offset = int(segment.stem)
        by_offset = _entries(segment.with_suffix(".index"), _OFFSET_ENTRY, "position")
        by_time = _entries(segment.with_suffix(".timeindex"), _TIME_ENTRY, "timestamp")
        return cls(
            by_offset["offset"].astype(np.int64) + base_offset,
            by_offset["position"].astype(np.int64),
            by_time["timestamp"].astype(np.int64),
            by_time["offset"].astype(np.int64) + base_offset,
        )

    def faults(self, table: BatchTable, position: int, is_last: bool) -> list[str | None]:
        """A text for each batch about a wrong entry that points to it, or `None`. `table` is a
        window that begins at `position` of the segment. Entries behind the last window count for
        its last batch."""
        found: list[str | None] = [None] * len(table)
        for row, fault in self._offset_faults(table, position, is_last):
            found[row] = found[row] or fault
        for row, fault in self._time_faults(table, is_last):
            found[row] = found[row] or fault
        return found

    def _offset_faults(
        self, table: BatchTable, position: int, is_last: bool
    ) -> Iterator[tuple[int, str]]:
        starts = table.positions + position
        end = position + table.end
        inside = (self.positions >= position) & ((self.positions < end) | is_last)
        entries = np.flatnonzero(inside)
        rows = np.searchsorted(starts, self.positions[entries], side="right") - 1
        ascends = _ascends(self.offsets) & _ascends(self.positions)
        wrong = starts[rows] != self.positions[entries]
        wrong |= table.base_offsets[rows] > self.offsets[entries]
        wrong |= ~ascends[entries]
        for entry, row in zip(entries[wrong].tolist(), rows[wrong].tolist(), strict=True):
            where = f"offset {self.offsets[entry]} at position {self.positions[entry]}"
            yield row, f"offset index leads to {where}, where no fitting batch begins"

    def _time_faults(self, table: BatchTable, is_last: bool) -> Iterator[tuple[int, str]]:
        bases, lasts = table.base_offsets, table.last_offsets
        inside = (self.time_offsets >= bases[0]) & ((self.time_offsets <= lasts[-1]) | is_last)
        entries = np.flatnonzero(inside)
        rows = np.searchsorted(bases, self.time_offsets[entries], side="right") - 1
        wrong = lasts[rows] < self.time_offsets[entries]
        wrong |= table.field("max_timestamp")[rows] != self.times[entries]
        wrong |= ~_ascends(self.times)[entries]
        for entry, row in zip(entries[wrong].tolist(), rows[wrong].tolist(), strict=True):
            what = f"timestamp {self.times[entry]} at offset {self.time_offsets[entry]}"
            yield row, f"time index claims {what}, which the batch there does not have"


def _entries(path: Path, entry: "np.dtype[Any]", never_zero: str) -> npt.NDArray[Any]:
    """The whole entries of an index file, up to the first unused one."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        data = b""
    entries = np.frombuffer(data[: len(data) // entry.itemsize * entry.itemsize], dtype=entry)
    unused = np.flatnonzero(entries[never_zero] == 0)
    return entries[: int(unused[0])] if unused.size else entries


def _ascends(values: Int64s) -> npt.NDArray[np.bool_]:
    """Whether each value is larger than the one before it."""
    result = np.ones(len(values), dtype=np.bool_)
    result[1:] = values[1:] > values[:-1]
    return result

"""The segments of one log in order, and which of them covers an offset.

Everything that adds, seals, cuts, deletes or replaces segments goes through here, so that the list
and the base offsets by which it is searched cannot part.

Invariants
- LogContiguity: base offsets strictly increase, and each segment covers the offsets from its base
  up to the next base.
- There is at least one segment. The last one is active; every other one has batches, unless a
  cleaner has removed them.
"""

import sys
from bisect import bisect_right
from collections.abc import Iterator

from tidelog.log.segment import Segment


class SegmentList:
    """The segments of one log, ascending."""

    __slots__ = ("_bases", "_segments", "active")

    def __init__(self, segments: list[Segment]) -> None:
        # Ascending by base offset; never empty.
        self._segments = segments
        # Base offsets of the same segments, for bisection.
        self._bases = [segment.base_offset for segment in segments]
        # The last one: the only one that is appended to.
        self.active = segments[-1]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __getitem__(self, index: int) -> Segment:
        return self._segments[index]

    @property
    def first_base_offset(self) -> int:
        """Base offset of the oldest segment."""
        return self._bases[0]

    def first_of_last(self, count: int) -> int:
        """Base offset of the oldest of the newest segments, at most so many."""
        return self._bases[-min(count, len(self._bases))]

    @property
    def size_bytes(self) -> int:
        """Bytes of all log files."""
        return sum(segment.size_bytes for segment in self._segments)

    def covering(self, offset: int) -> list[Segment]:
        """The segment that covers `offset` and all after it."""
        return self._segments[max(0, bisect_right(self._bases, offset) - 1) :]

    def add(self, segment: Segment) -> None:
        """A new active segment."""
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def drop_active(self) -> Segment:
        """Takes the active segment out; the caller deletes its files, and adds another one unless
        some are left."""
        self._bases.pop()
        dropped = self._segments.pop()
        if self._segments:
            self.active = self._segments[-1]
        return dropped

    def count_below(self, offset: int) -> int:
        """How many segments end at or below `offset`, the active one not counted."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def drop_below(self, offset: int, most: int = sys.maxsize) -> list[Segment]:
        """Takes out the oldest segments that end at or below `offset`, at most so many, never the
        active one; the caller deletes their files."""
        count = min(most, self.count_below(offset))
        dropped = self._segments[:count]
        del self._segments[:count], self._bases[:count]
        return dropped

    def replace(self, old: list[Segment], new: Segment) -> None:
        """One new segment takes the place of neighbours, none of them active."""
        first = self._segments.index(old[0])
        end = first + len(old)
        assert self._segments[first:end] == old and end < len(self._segments), "not neighbours"
        self._segments[first:end] = [new]
        self._bases[first:end] = [new.base_offset]

    def restart(self, segment: Segment) -> None:
        """One new segment takes the place of all."""
        self._segments = [segment]
        self._bases = [segment.base_offset]
        self.active = segment

    def check(self, name: object) -> None:
        """Asserts the invariants."""
        assert self._bases == [segment.base_offset for segment in self._segments], f"{name}"
        assert self._bases, f"{name}: no segment"
        assert self.active is self._segments[-1], f"{name}: {self.active.base_offset} is active"
        for index in range(len(self._bases) - 1):
            assert self._bases[index] < self._bases[index + 1], f"{name}: {self._bases}"
            segment = self._segments[index]
            is_whole = segment.size_bytes or not segment.batches.contiguous
            assert is_whole, f"{name}: empty sealed segment"

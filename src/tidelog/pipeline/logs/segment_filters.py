"""Filters that Spark offers to the segment source: which files a query can leave unread.

Broker, topic and partition are told by a file's place. Of offsets, its name tells the first one,
and the next file of the same replica tells where it ends; so a bound on `base_offset`, or on
`offset` of records, leaves out whole files. Spark compares every row again, because the rest of a
file is read as it is.

A batch that stands in a file where its offset does not belong (a fault, which the audit finds
without filters) is not looked for elsewhere. Pure, and without a Spark import.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from tidelog.pipeline.logs.layout import Replica, SegmentPlace
from tidelog.pipeline.topics.pushdown import FIRST, LAST, RANGES, listed_values, narrowed_bounds

_OFFSETS: Final = ("base_offset", "offset")
_NUMBERS: Final = ("broker", "partition", *_OFFSETS)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Whole numbers that a query can still want."""

    bounds: tuple[int, int] = (FIRST, LAST)
    """Inclusive."""
    values: frozenset[int] | None = None
    """`None` for all within the bounds."""

    def narrowed(self, kind: str, value: Any) -> "Numbers":
        """One filter more; the same where it says nothing that is understood."""
        listed = listed_values(kind, value, int)
        if listed is not None:
            known = frozenset(listed)
            return replace(self, values=known if self.values is None else known & self.values)
        if kind in RANGES and type(value) is int:
            return replace(self, bounds=narrowed_bounds(self.bounds, kind, value))
        return self

    def touch(self, first: int, last: int) -> bool:
        """Whether one of the numbers from `first` to `last` is wanted."""
        first, last = max(first, self.bounds[0]), min(last, self.bounds[1])
        if self.values is None:
            return first <= last
        return any(first <= value <= last for value in self.values)


@dataclass(slots=True)
class SegmentFilters:
    """What the offered filters say together."""

    topics: frozenset[str] | None = None
    """`None` for all."""
    numbers: dict[str, Numbers] = field(default_factory=dict)
    """By column."""

    def take(self, offered: Iterable[Any]) -> list[Any]:
        """Looks at filters; all of them stay Spark's to evaluate."""
        filters = list(offered)
        for each in filters:
            column = each.attribute[0] if len(getattr(each, "attribute", ())) == 1 else ""
            kind, value = type(each).__name__, getattr(each, "value", None)
            if column == "topic" and (listed := listed_values(kind, value, str)) is not None:
                known = frozenset(listed)
                self.topics = known if self.topics is None else known & self.topics
            elif column in _NUMBERS:
                self.numbers[column] = self._of(column).narrowed(kind, value)
        return filters

    def select(self, replicas: Sequence[Replica]) -> list[Replica]:
        """The replicas, with the files in which something may be wanted."""
        return [
            replace(replica, segments=tuple(self._wanted(replica.segments)))
            for replica in replicas
            if (self.topics is None or replica.topic in self.topics)
            and self._of("broker").touch(replica.broker, replica.broker)
            and self._of("partition").touch(replica.partition, replica.partition)
        ]

    def _wanted(self, segments: Sequence[SegmentPlace]) -> Iterator[SegmentPlace]:
        starts = [int(Path(place.path).stem) for place in segments]
        ends = [*(following - 1 for _, following in pairwise(starts)), LAST]
        for place, first, last in zip(segments, starts, ends, strict=True):
            if all(self._of(column).touch(first, last) for column in _OFFSETS):
                yield place

    def _of(self, column: str) -> Numbers:
        return self.numbers.get(column, Numbers())

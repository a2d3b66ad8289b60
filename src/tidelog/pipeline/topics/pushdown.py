"""Filters of a batch over topics: how they narrow topics, partitions, offsets and times.

Partitions and offsets narrow the planned ranges exactly, so Spark need not evaluate them again. A
time narrows only partly, because a partition's records need not be in the order of their
timestamps: the lower bound moves a range's start (no earlier record is as late), both bounds drop
records before Spark gets them, and Spark compares again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tidelog.pipeline import filters
from tidelog.pipeline.values import OffsetRange

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIELD_OF: Final = {
    "topic": "topics", "partition": "partitions", "offset": "offsets", "timestamp": "times_ms"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bounds:
    """The records that a query can still want; pairs are inclusive bounds."""

    topics: frozenset[str] | None = None
    partitions: filters.Numbers = field(default_factory=filters.Numbers)
    offsets: tuple[int, int] = (filters.FIRST, filters.LAST)
    times_ms: tuple[int, int] = (filters.FIRST, filters.LAST)

    @property
    def wanted_times(self) -> tuple[int, int] | None:
        """The first and last timestamp in ms; `None` when every time is wanted."""
        return None if self.times_ms == (filters.FIRST, filters.LAST) else self.times_ms

    @property
    def earliest_time(self) -> int | None:
        """The first timestamp in ms; `None` without a lower bound."""
        return None if self.times_ms[0] == filters.FIRST else max(self.times_ms[0], 0)

    def narrow(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """What is left of ranges; empty ones are left out."""
        low, high = self.offsets
        narrowed = (
            replace(each, start=max(each.start, low), end=min(each.end, high + 1))
            for each in ranges
            if (self.topics is None or each.topic in self.topics)
            and self.partitions.touch(each.partition, each.partition)
        )
        return [each for each in narrowed if each.length]

    def narrowed(self, column: str, kind: str, value: Any) -> "Bounds | None":
        """These bounds after one more filter; `None` for a filter that is not understood."""
        found: Any = None
        if column == "topic" and (listed := filters.listed_values(kind, value, str)) is not None:
            found = filters.in_both(self.topics, listed)
        elif column == "partition":
            found = self.partitions.narrowed(kind, value)
        elif column == "offset":
            found = filters.narrowed_bounds(self.offsets, kind, value)
        elif column == "timestamp" and kind in filters.RANGES and isinstance(value, datetime):
            found = self._narrowed_times(kind, value)
        return None if found is None else replace(self, **{_FIELD_OF[column]: found})

    def _narrowed_times(self, kind: str, value: datetime) -> tuple[int, int]:
        """Record timestamps are whole milliseconds: a bound between two moves inwards."""
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        micros = (aware - _EPOCH) // timedelta(microseconds=1)
        down, up = micros // 1000, -(-micros // 1000)
        whole = down == up
        low, high = self.times_ms
        if kind in filters.EQUALS or kind.startswith("Greater"):
            low = max(low, up + 1 if kind == "GreaterThan" and whole else up)
        if kind in filters.EQUALS or kind.startswith("Less"):
            high = min(high, down - 1 if kind == "LessThan" and whole else down)
        return low, high


@dataclass(slots=True)
class PushedFilters:
    """Collects the filters that the source evaluates itself."""

    bounds: Bounds = field(default_factory=Bounds)

    def take(self, offered: Sequence[Any]) -> list[Any]:
        """Takes the filters that it can evaluate; returns those that Spark must still evaluate."""
        return [each for each in offered if not self._take(each)]

    def _take(self, offered: Any) -> bool:
        column, kind, value = filters.comparison(offered)
        narrowed = self.bounds.narrowed(column, kind, value)
        if narrowed is None:
            return False
        self.bounds = narrowed
        return column != "timestamp"

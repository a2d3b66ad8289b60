"""Filters that Spark offers to the source: what they say of topics, partitions, offsets and times.

Spark 4.1 and later pass simple comparisons that are joined by AND, if
`spark.sql.python.filterPushdown.enabled` is on. Partitions and offsets narrow the planned ranges
exactly, so Spark need not look again. A time narrows only: records of a partition need not be in
the order of their timestamps, so the lower bound moves a range's start (no earlier record is as
late), both bounds drop records before they cross into Spark, and Spark compares again.

Pure, and without a Spark import: filters are told by the names of their classes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tidelog.pipeline.values import OffsetRange

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
FIRST: Final = -(2**62)
LAST: Final = 2**62
_EQUALS: Final = ("EqualTo", "EqualNullSafe")
RANGES: Final = (*_EQUALS, "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a query can still want; every value an inclusive bound."""

    topics: frozenset[str] | None = None
    """`None` for all."""
    partitions: frozenset[int] | None = None
    partition_range: tuple[int, int] = (FIRST, LAST)
    offsets: tuple[int, int] = (FIRST, LAST)
    times_ms: tuple[int, int] = (FIRST, LAST)

    @property
    def wanted_times(self) -> tuple[int, int] | None:
        """The first and last timestamp in ms; `None` when every time is wanted."""
        return None if self.times_ms == (FIRST, LAST) else self.times_ms

    @property
    def earliest_time(self) -> int | None:
        """The first timestamp in ms; `None` without a lower bound."""
        return None if self.times_ms[0] == FIRST else max(self.times_ms[0], 0)

    def narrow(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """What is left of ranges; empty ones are left out."""
        first, last = self.partition_range
        narrowed = (
            OffsetRange(
                each.topic,
                each.partition,
                max(each.start, self.offsets[0]),
                min(each.end, self.offsets[1] + 1),
            )
            for each in ranges
            if (self.topics is None or each.topic in self.topics)
            and (self.partitions is None or each.partition in self.partitions)
            and first <= each.partition <= last
        )
        return [each for each in narrowed if each.length]


@dataclass(slots=True)
class PushedFilters:
    """Filters being taken over one by one."""

    bounds: Bounds = field(default_factory=Bounds)
    """What all filters so far say together."""

    def take(self, offered: Sequence[Any]) -> list[Any]:
        """Takes over what it can; returns the filters that Spark must still evaluate."""
        return [each for each in offered if not self._take(each)]

    def _take(self, offered: Any) -> bool:
        kind = type(offered).__name__
        column = offered.attribute if hasattr(offered, "attribute") else ()
        value = getattr(offered, "value", None)
        if column == ("topic",):
            return self._take_topics(kind, value)
        if column == ("partition",):
            return self._take_partitions(kind, value)
        if column == ("offset",) and kind in RANGES and type(value) is int:
            bounds = replace(self.bounds, offsets=narrowed_bounds(self.bounds.offsets, kind, value))
            self.bounds = bounds
            return True
        if column == ("timestamp",) and kind in RANGES and isinstance(value, datetime):
            self._narrow_times(kind, value)
        return False

    def _take_topics(self, kind: str, value: Any) -> bool:
        values = listed_values(kind, value, str)
        if values is None:
            return False
        known = self.bounds.topics
        topics = frozenset(values) if known is None else known & set(values)
        self.bounds = replace(self.bounds, topics=topics)
        return True

    def _take_partitions(self, kind: str, value: Any) -> bool:
        values = listed_values(kind, value, int)
        if values is not None:
            known = self.bounds.partitions
            partitions = frozenset(values) if known is None else known & set(values)
            self.bounds = replace(self.bounds, partitions=partitions)
            return True
        if kind in RANGES and type(value) is int:
            partition_range = narrowed_bounds(self.bounds.partition_range, kind, value)
            self.bounds = replace(self.bounds, partition_range=partition_range)
            return True
        return False

    def _narrow_times(self, kind: str, value: datetime) -> None:
        """Record timestamps are whole milliseconds: a bound between two moves inwards."""
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        micros = (aware - _EPOCH) // timedelta(microseconds=1)
        down, up = micros // 1000, -(-micros // 1000)
        whole = down == up
        low, high = self.bounds.times_ms
        if kind in _EQUALS or kind.startswith("Greater"):
            low = max(low, up + 1 if kind == "GreaterThan" and whole else up)
        if kind in _EQUALS or kind.startswith("Less"):
            high = min(high, down - 1 if kind == "LessThan" and whole else down)
        self.bounds = replace(self.bounds, times_ms=(low, high))


def listed_values(kind: str, value: Any, wanted_type: type) -> list[Any] | None:
    """The values that a filter allows, if it lists them; null equals nothing."""
    values = [value] if kind in _EQUALS else list(value) if kind == "In" else None
    if values is None or any(v is not None and type(v) is not wanted_type for v in values):
        return None
    return [v for v in values if v is not None]


def narrowed_bounds(bounds: tuple[int, int], kind: str, value: int) -> tuple[int, int]:
    """Inclusive bounds and one comparison of `RANGES` more."""
    low, high = bounds
    if kind in _EQUALS:
        return max(low, value), min(high, value)
    if kind.startswith("Greater"):
        return max(low, value + (kind == "GreaterThan")), high
    return low, min(high, value - (kind == "LessThan"))

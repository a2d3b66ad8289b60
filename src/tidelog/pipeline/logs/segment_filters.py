"""Filters of a query over segments: which files it can leave unread.

A file's directory gives its broker, topic and partition. Its name gives its first offset, and the
name of the replica's next file gives its end. So a bound on `base_offset`, or on `offset` of
records, leaves out whole files. Spark compares every row again, because other files are read whole.

A batch in a file to which its offset does not belong (a fault, which the audit finds without
filters) is not searched in other files. `filters.py` reads the filters.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

from tidelog.pipeline.filters import LAST, Numbers, comparison, in_both, listed_values
from tidelog.pipeline.logs.layout import Replica, SegmentPlace

_OFFSETS: Final = ("base_offset", "offset")
_NUMBERS: Final = ("broker", "partition", *_OFFSETS)


@dataclass(slots=True)
class SegmentFilters:
    """All offered filters together."""

    topics: frozenset[str] | None = None
    numbers: dict[str, Numbers] = field(default_factory=dict)

    def take(self, offered: Iterable[Any]) -> list[Any]:
        """Uses filters to leave out files; returns all of them, because Spark must evaluate them
        too."""
        filters = list(offered)
        for each in filters:
            column, kind, value = comparison(each)
            if column == "topic" and (listed := listed_values(kind, value, str)) is not None:
                self.topics = in_both(self.topics, listed)
            if column in _NUMBERS:
                known = self._of(column)
                self.numbers[column] = known.narrowed(kind, value) or known
        return filters

    def select(self, replicas: Sequence[Replica]) -> list[Replica]:
        """The replicas, with the files that may hold wanted rows."""
        return [
            replace(replica, segments=tuple(self._wanted(replica.segments)))
            for replica in replicas
            if (self.topics is None or replica.topic in self.topics)
            and self._of("broker").touch(replica.broker, replica.broker)
            and self._of("partition").touch(replica.partition, replica.partition)
        ]

    def _wanted(self, segments: Sequence[SegmentPlace]) -> Iterator[SegmentPlace]:
        starts = [place.base_offset for place in segments]
        ends = [*(following - 1 for _, following in pairwise(starts)), LAST]
        for place, first, last in zip(segments, starts, ends, strict=True):
            if all(self._of(column).touch(first, last) for column in _OFFSETS):
                yield place

    def _of(self, column: str) -> Numbers:
        return self.numbers.get(column, Numbers())

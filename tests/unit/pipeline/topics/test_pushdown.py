"""Filters that Spark offers: what they narrow, and what is left to Spark."""

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from tidelog.pipeline.topics.pushdown import Bounds, PushedFilters
from tidelog.pipeline.values import OffsetRange

_RANGES = [OffsetRange("a", 0, 0, 100), OffsetRange("a", 1, 50, 60), OffsetRange("b", 0, 10, 20)]
_PARTITION, _OFFSET, _TOPIC, _TIME = ("partition",), ("offset",), ("topic",), ("timestamp",)


def _narrowed(*filters):
    pushed = PushedFilters()
    assert pushed.take(filters) == []
    return [(one.topic, one.partition, one.start, one.end) for one in pushed.bounds.narrow(_RANGES)]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(_PARTITION, 0)], [("a", 0, 0, 100), ("b", 0, 10, 20)]),
        ([In(_PARTITION, (1, None, 5))], [("a", 1, 50, 60)]),
        ([In(_PARTITION, (0, 1)), EqualTo(_PARTITION, 1)], [("a", 1, 50, 60)]),
        ([GreaterThan(_PARTITION, 0)], [("a", 1, 50, 60)]),
        ([LessThan(_PARTITION, 1), EqualTo(_TOPIC, "b")], [("b", 0, 10, 20)]),
        ([EqualNullSafe(_TOPIC, "b")], [("b", 0, 10, 20)]),
        ([EqualTo(_TOPIC, None)], []),
        ([In(_TOPIC, ("b", "c")), EqualTo(_TOPIC, "a")], []),
        (
            [GreaterThanOrEqual(_OFFSET, 15), LessThan(_OFFSET, 55)],
            [("a", 0, 15, 55), ("a", 1, 50, 55), ("b", 0, 15, 20)],
        ),
        (
            [GreaterThan(_OFFSET, 15), LessThanOrEqual(_OFFSET, 17)],
            [("a", 0, 16, 18), ("b", 0, 16, 18)],
        ),
        ([EqualTo(_OFFSET, 59)], [("a", 0, 59, 60), ("a", 1, 59, 60)]),
        ([EqualTo(_OFFSET, 5), EqualTo(_OFFSET, 6)], []),
    ],
)
def test_places_narrow_the_ranges_exactly(filters, expected):
    assert _narrowed(*filters) == expected


@pytest.mark.parametrize(
    "offered",
    [
        Not(EqualTo(_PARTITION, 0)),
        IsNotNull(_OFFSET),
        StringStartsWith(_TOPIC, "a"),
        EqualTo(("value",), b"x"),
        EqualTo(("headers", "key"), "x"),
        GreaterThan(_OFFSET, True),
        GreaterThan(_OFFSET, None),
        GreaterThan(_TOPIC, "a"),
    ],
)
def test_what_it_does_not_know_is_left_to_spark(offered):
    pushed = PushedFilters()
    assert pushed.take([offered]) == [offered]
    assert pushed.bounds == Bounds()
    assert pushed.bounds.narrow(_RANGES) == _RANGES


def _time(micros: int) -> datetime:
    return datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC) + timedelta(microseconds=micros)


_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("kind", "micros", "first", "last"),
    [
        (GreaterThanOrEqual, 2000, 2, None),
        (GreaterThanOrEqual, 2001, 3, None),
        (GreaterThan, 2000, 3, None),
        (GreaterThan, 1999, 2, None),
        (LessThan, 2000, None, 1),
        (LessThan, 2001, None, 2),
        (LessThanOrEqual, 2000, None, 2),
        (LessThanOrEqual, 1999, None, 1),
        (EqualTo, 2000, 2, 2),
        (EqualTo, 2001, 3, 2),
    ],
)
def test_times_narrow_inwards_and_stay_with_spark(kind, micros, first, last):
    pushed = PushedFilters()
    offered = kind(_TIME, _time(micros))
    assert pushed.take([offered]) == [offered]
    low, high = pushed.bounds.wanted_times
    assert pushed.bounds.earliest_time == (None if first is None else _MS + first)
    assert low == _MS + first if first is not None else low < 0
    assert high == _MS + last if last is not None else high > 2**60


def test_a_time_without_a_zone_is_utc():
    pushed = PushedFilters()
    pushed.take([GreaterThanOrEqual(_TIME, _time(0).replace(tzinfo=None))])
    assert pushed.bounds.earliest_time == _MS

"""Which files a query's filters leave to be read."""

from collections import namedtuple

import pytest

from tidelog.pipeline.logs.layout import Replica, SegmentPlace
from tidelog.pipeline.logs.segment_filters import SegmentFilters

EqualTo = namedtuple("EqualTo", "attribute value")
In = namedtuple("In", "attribute value")
GreaterThan = namedtuple("GreaterThan", "attribute value")
GreaterThanOrEqual = namedtuple("GreaterThanOrEqual", "attribute value")
LessThan = namedtuple("LessThan", "attribute value")
LessThanOrEqual = namedtuple("LessThanOrEqual", "attribute value")
IsNotNull = namedtuple("IsNotNull", "attribute")


def _replica(broker, topic, partition):
    """Segments from offsets 0, 100 and 250."""
    places = [
        SegmentPlace(broker, topic, partition, f"/{broker}/{topic}-{partition}/{base:020}.log", 1)
        for base in (0, 100, 250)
    ]
    return Replica(broker, topic, partition, 0, 300, 0, tuple(places))


_REPLICAS = [_replica(b, t, p) for b in (1, 2) for t in ("a", "b") for p in (0, 1)]


def _left(*filters):
    taken = SegmentFilters()
    assert taken.take(filters) == list(filters)
    return [
        (replica.broker, replica.topic, replica.partition, len(replica.segments))
        for replica in taken.select(_REPLICAS)
    ]


def _starts(*filters):
    taken = SegmentFilters()
    taken.take(filters)
    (replica,) = taken.select(_REPLICAS[:1])
    return [int(place.path[-24:-4]) for place in replica.segments]


@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        (EqualTo(("topic",), "a"), {(b, "a", p, 3) for b in (1, 2) for p in (0, 1)}),
        (In(("topic",), ("b", None)), {(b, "b", p, 3) for b in (1, 2) for p in (0, 1)}),
        (EqualTo(("broker",), 2), {(2, t, p, 3) for t in "ab" for p in (0, 1)}),
        (LessThan(("partition",), 1), {(b, t, 0, 3) for b in (1, 2) for t in "ab"}),
        (In(("broker",), (7, 1)), {(1, t, p, 3) for t in "ab" for p in (0, 1)}),
        (EqualTo(("topic",), None), set()),
    ],
)
def test_a_place_is_wanted_or_not(offered, expected):
    assert set(_left(offered)) == expected


@pytest.mark.parametrize("column", ["base_offset", "offset"])
@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (EqualTo, 99, [0]),
        (EqualTo, 100, [100]),
        (In, (3, 400), [0, 250]),
        (GreaterThanOrEqual, 99, [0, 100, 250]),
        (GreaterThan, 99, [100, 250]),
        (GreaterThan, 249, [250]),
        (LessThan, 100, [0]),
        (LessThanOrEqual, 100, [0, 100]),
    ],
)
def test_a_file_ends_where_the_next_one_begins(column, kind, value, expected):
    assert _starts(kind((column,), value)) == expected


def test_filters_are_joined_by_and():
    assert _starts(GreaterThan(("base_offset",), 99), LessThan(("base_offset",), 250)) == [100]
    assert _left(EqualTo(("topic",), "a"), EqualTo(("topic",), "b")) == []


def test_what_is_not_understood_leaves_everything():
    everything = _left()
    assert len(everything) == 8
    assert _left(IsNotNull(("topic",)), EqualTo(("broker",), "1")) == everything
    assert _left(EqualTo(("topic", "deeper"), "a"), EqualTo(("size",), 3)) == everything

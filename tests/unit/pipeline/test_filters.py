"""What a filter compares, and what several filters leave of a column's numbers."""

from collections import namedtuple

import pytest

from tidelog.pipeline.filters import FIRST, LAST, Numbers, comparison

EqualTo = namedtuple("EqualTo", "attribute value")
IsNotNull = namedtuple("IsNotNull", "attribute")
Not = namedtuple("Not", "child")


@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        (EqualTo(("a",), 3), ("a", "EqualTo", 3)),
        (EqualTo(("a", "deeper"), 3), ("", "EqualTo", 3)),
        (IsNotNull(("a",)), ("a", "IsNotNull", None)),
        (Not(EqualTo(("a",), 3)), ("", "Not", None)),
    ],
)
def test_a_filter_is_a_column_a_comparison_and_a_value(offered, expected):
    assert comparison(offered) == expected


def _narrowed(*filters: tuple[str, object]) -> Numbers:
    numbers = Numbers()
    for kind, value in filters:
        numbers = numbers.narrowed(kind, value) or numbers
    return numbers


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ([], range(10)),
        ([("EqualTo", 3)], [3]),
        ([("EqualNullSafe", 3), ("EqualTo", 4)], []),
        ([("In", (7, None, 2))], [2, 7]),
        ([("EqualTo", None)], []),
        ([("GreaterThan", 3)], range(4, 10)),
        ([("GreaterThanOrEqual", 3), ("LessThan", 6)], range(3, 6)),
        ([("LessThanOrEqual", 6), ("In", (1, 6, 8))], [1, 6]),
    ],
)
def test_every_filter_narrows(filters, wanted):
    numbers = _narrowed(*filters)
    assert [each for each in range(10) if numbers.touch(each, each)] == list(wanted)
    assert numbers.touch(FIRST, LAST) == bool(wanted)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("GreaterThan", None), ("LessThan", True), ("EqualTo", "3"), ("In", (1, "2")), ("Not", 1)],
)
def test_what_is_not_understood_narrows_nothing(kind, value):
    assert Numbers().narrowed(kind, value) is None


def test_a_span_is_touched_by_what_lies_in_it():
    some = _narrowed(("In", (3, 40)), ("LessThan", 40))
    assert some.touch(0, 3)
    assert not some.touch(4, 39)
    assert not some.touch(40, 50)

"""Goal: texts become values as Kafka parses them, and a text that does not parse gets a reason."""

import pytest

from tidelog.config.property_types import (
    BadValue,
    Property,
    PropertyType,
    Value,
    between,
    list_of,
    one_of,
    optional,
    parse_value,
    split_list,
    throttled_replicas,
    value_text,
)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (PropertyType.INT, "5", 5),
        (PropertyType.INT, " -1 ", -1),
        (PropertyType.INT, "+7", 7),
        (PropertyType.INT, "2147483647", 2**31 - 1),
        (PropertyType.LONG, "9223372036854775807", 2**63 - 1),
        (PropertyType.BOOLEAN, "TRUE", True),
        (PropertyType.BOOLEAN, "false", False),
        (PropertyType.DOUBLE, "0.25", 0.25),
        (PropertyType.STRING, " x ", "x"),
    ],
)
def test_values_parse(kind: PropertyType, text: str, value: Value) -> None:
    assert parse_value(Property(name="p", type=kind, doc=""), text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (PropertyType.INT, ""),
        (PropertyType.INT, "-"),
        (PropertyType.INT, "1_000"),
        (PropertyType.INT, "1.0"),
        (PropertyType.INT, "1e3"),
        (PropertyType.INT, "٣"),
        (PropertyType.INT, "2147483648"),
        (PropertyType.SHORT, "32768"),
        (PropertyType.LONG, "9223372036854775808"),
        (PropertyType.BOOLEAN, "yes"),
        (PropertyType.DOUBLE, "half"),
    ],
)
def test_what_does_not_parse_is_refused(kind: PropertyType, text: str) -> None:
    with pytest.raises(BadValue):
        parse_value(Property(name="p", type=kind, doc=""), text)


def test_checks_complain_at_their_bounds() -> None:
    assert between(1)(1) is None
    assert between(1)(0) == "must be at least 1"
    assert between(1, 3)(3) is None
    assert between(1, 3)(4) == "must be between 1 and 3"
    assert one_of("a", "b")("c") == "must be one of a, b"
    assert optional(one_of("a", "b"))("c") == "must be one of a, b"
    assert optional(one_of("a", "b"))("") is None
    assert list_of("a", "b")("b,a") is None
    assert list_of("a", "b")("a,a") == "must not name an item twice"
    assert list_of("a", "b")("a,c") == "must be a list of a, b"


def test_lists_split_and_values_print_as_kafka_prints_them() -> None:
    assert split_list(" a, b ,,c") == ["a", "b", "c"]
    assert [value_text(v) for v in (True, False, 3, "x", 0.5)] == ["true", "false", "3", "x", "0.5"]


@pytest.mark.parametrize("text", ["", "*", " * ", "0:1", "0:1,12:3", "0:1, 1:2"])
def test_throttled_replicas_are_all_or_pairs(text: str) -> None:
    assert throttled_replicas(text) is None


@pytest.mark.parametrize("text", ["**", "1", "0:1:2", "a:1", "0:-1", "0:1,*", "0:"])
def test_other_lists_of_throttled_replicas_are_refused(text: str) -> None:
    assert throttled_replicas(text) is not None

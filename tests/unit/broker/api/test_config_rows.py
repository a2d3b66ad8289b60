"""Goal: topics with the same overrides share their rows, and no others do."""

from tidelog.broker.api.config_rows import ConfigRows, Row
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import ArrayWriter, nested
from tidelog.wire.primitives import Encoded

TOPICS = nested(codec.response_class(ApiKey.CREATE_TOPICS, 7), "topics")


def row(value: str) -> Row:
    return {
        "name": "retention.ms",
        "value": value,
        "read_only": False,
        "config_source": 1,
        "is_sensitive": False,
    }


def one_row(value: str) -> Encoded:
    rows = ArrayWriter(TOPICS, "configs")
    rows.add(**row(value))
    return rows.array()


def test_equal_overrides_are_described_once() -> None:
    rows = ConfigRows(TOPICS)
    described = []

    def describe() -> list[Row]:
        described.append(row("1"))
        return described

    first = rows.of({"a": "1", "b": "2"}, describe)
    assert rows.of({"b": "2", "a": "1"}, describe) is first
    assert first == one_row("1")
    assert len(described) == len(rows) == 1


def test_other_overrides_or_keys_have_rows_of_their_own() -> None:
    rows = ConfigRows(TOPICS)
    asked = [({}, ()), ({"a": "1"}, ()), ({"a": "2"}, ()), ({}, ("a",)), ({}, ("a", "b"))]
    found = [
        rows.of(overrides, lambda value=str(index): [row(value)], *wanted)
        for index, (overrides, wanted) in enumerate(asked)
    ]
    assert found == [one_row(str(index)) for index in range(len(asked))]

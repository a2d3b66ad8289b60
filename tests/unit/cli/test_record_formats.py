"""Goal: records are printed and read as the format says; JSON loses nothing."""

import pytest

from tidelog.cli.record_formats import printer, reader, with_more
from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.records.record import Record

TP = TopicPartition("orders", 2)
PLAIN = Record(1000, b"k", b"v", (("a", b"1"), ("b", None)), 7)
BINARY = Record(1000, None, b"\xff\x00", (("h", b"\xfe"),), 8)
TOMBSTONE = Record(1000, b"\xff", None, (), 9)


@pytest.mark.parametrize(
    ("text", "record", "shown"),
    [
        ("{value}", PLAIN, "v"),
        ("{topic}-{partition}@{offset}\\t{key}={value};", PLAIN, "orders-2@7\tk=v;"),
        ("{timestamp} {headers}", PLAIN, "1000 a=1,b=null"),
        ("{key}:{value}", BINARY, "null:\\xff\0"),
    ],
)
def test_a_record_is_printed(text, record, shown):
    assert printer(text)(TP, record) == shown


@pytest.mark.parametrize("record", [PLAIN, BINARY, TOMBSTONE])
def test_json_loses_nothing(record):
    line = printer("json")(TP, record)
    assert "\n" not in line
    read = reader("json")(line.encode(), 1000)
    assert read == record._replace(offset=0)


def test_lines_are_read():
    assert reader("{value}")(b"a:b", 5) == Record(5, None, b"a:b")
    assert reader("{key}:{value}")(b"a:b:c", 5) == Record(5, b"a", b"b:c")
    assert reader("{key}\\t{value}")(b"a\tb", 5) == Record(5, b"a", b"b")
    more = with_more(Record(5, b"a", b"b", (("x", b"1"),)), "k", (("y", b"2"),))
    assert more == Record(5, b"k", b"b", (("x", b"1"), ("y", b"2")))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{key}:{value}", b"nothing"),
        ("json", b"{"),
        ("json", b"[1]"),
        ("json", b'{"key": "k"}'),
        ("json", b'{"value": 1}'),
        ("json", b'{"value": "v", "kye": "k"}'),
        ("json", b'{"value": {"base64": "?"}}'),
        ("json", b'{"value": "v", "headers": {"a": "b"}}'),
    ],
)
def test_what_is_not_a_record(text, line):
    with pytest.raises(ValueError, match=r".+"):
        reader(text)(line, 5)


@pytest.mark.parametrize("text", ["{foo}", "value", "{value", ""])
def test_what_is_not_a_format(text):
    with pytest.raises(UsageError):
        printer(text)
    with pytest.raises(UsageError):
        reader(text)


@pytest.mark.parametrize("text", ["{value} {key}", "{key}{value}", "{key}:{value}.", "{key}"])
def test_what_can_only_be_printed(text):
    printer(text)
    with pytest.raises(UsageError, match="lines cannot be read"):
        reader(text)

"""Parsing: every record gets its own value or a reason, whatever stands beside it in its block."""

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from tidelog.env.prng import Prng
from tidelog.pipeline.typed.formats import Format
from tidelog.pipeline.typed.parsing import Layout, parse
from tidelog.pipeline.typed.schema_text import parse_schema

_SCHEMA = parse_schema(
    "id bigint, day date, lines array<struct<n: int, due: date>>, at timestamp, price decimal(9,2)"
)
_JSON = Layout(Format.JSON, _SCHEMA)
_CSV_SCHEMA = parse_schema("a int, b string, c date")
_CSV = Layout(Format.CSV, _CSV_SCHEMA, ("a", "b"))


def _parsed(layout, *values):
    column, reasons = parse(layout, pa.array(values, pa.binary()))
    assert column.type == layout.type
    assert len(column) == len(values)
    return column.to_pylist(), reasons


def test_raw_is_what_came():
    assert _parsed(Layout(), b"\xff", None) == ([b"\xff", None], {})


def test_strings_are_utf_8():
    found, reasons = _parsed(Layout(Format.STRING, pa.string()), b"x", None, b"\xff", b"")
    assert found == ["x", None, None, ""]
    assert reasons == {2: "not UTF-8: invalid start byte at byte 0"}


def test_json_gets_its_types_and_unknown_fields_are_left_out():
    value = (
        b'{"id":1,"day":"2024-01-02","lines":[{"n":1,"due":"2024-05-06"}],"more":[{"x":[]}],'
        b'"at":"2024-01-02T03:04:05.25Z","price":1.5}'
    )
    (found, nothing), reasons = _parsed(_JSON, value, b"{}")
    assert reasons == {}
    assert found == {
        "id": 1,
        "day": date(2024, 1, 2),
        "lines": [{"n": 1, "due": date(2024, 5, 6)}],
        "at": datetime(2024, 1, 2, 3, 4, 5, 250_000, tzinfo=UTC),
        "price": Decimal("1.50"),
    }
    assert nothing == dict.fromkeys(found)


_BAD_JSON = [
    (b"", "not a JSON object"),
    (b"[1]", "not a JSON object"),
    (b"null", "not a JSON object"),
    (b'{"id":1', "not a JSON object"),
    (b'{"id":1}x', "not a JSON object"),
    (b'{"id":1}{"id":2}', "2 rows"),
    (b'{"id":1}\n{"id":2}', "2 rows"),
    (b'{"id":"1"}', "changed from number to string"),
    (b'{"id":1.5}', "couldn't parse:1.5"),
    (b'{"id":9223372036854775808}', "couldn't parse"),
    (b'{"id":1,"id":2}', "specified twice"),
    (b'{"id":\xff}', "not UTF-8"),
    (b'{"day":"2024-02-30"}', "Failed to parse string"),
    (b'{"day":1}', "changed from string to number"),
    (b'{"price":1.234}', "requires scale 3"),
    (b'{"price":12345678.5}', "does not fit in precision"),
    (b'{"lines":[{"n":3000000000}]}', "couldn't parse"),
    (b'{"at":"noon"}', "couldn't parse:noon"),
]


@pytest.mark.parametrize(("value", "reason"), _BAD_JSON)
def test_json_that_does_not_parse_has_a_reason_and_harms_no_other(value, reason):
    good = [b'{"id":%d}' % number for number in range(7)]
    for place in (0, 3, 7):
        values = [*good[:place], value, *good[place:]]
        found, reasons = _parsed(_JSON, *values)
        assert list(reasons) == [place]
        assert re.search(reason, reasons[place])
        ids = [None if row is None else row["id"] for row in found]
        assert ids == [*range(place), None, *range(place, 7)]


def test_two_bad_records_do_not_make_a_good_one_together():
    pairs = [
        (b'{"id":1,"lines":[{"n":1}', b'{"n":2}]}'),
        (b'{"id":1}{"id":2}', b""),
        (b'{"id":1,"x":"{}', b'{}"}'),
        (b'{"id":1,"x":{"y":2}', b'{"z":3}}'),
    ]
    for pair in pairs:
        found, reasons = _parsed(_JSON, b'{"id":5}', *pair, b'{"id":6}')
        assert [row and row["id"] for row in found] == [5, None, None, 6], pair
        assert sorted(reasons) == [1, 2]


def test_json_may_have_many_lines_and_any_depth():
    deep = b'{"deep":' * 50_000 + b"1" + b"}" * 50_000
    found, reasons = _parsed(_JSON, b' {\n "id": 7\n}\r\n', deep, None)
    assert reasons == {}
    assert [row and row["id"] for row in found] == [7, None, None]


def test_csv_fields_have_the_names_of_the_schema_file_in_its_order():
    found, reasons = _parsed(_CSV, b"1,x", b'2,"y,z"', None, b"7,", b'8,""\r\n', b'4,"a\nb"')
    assert reasons == {}
    rows = [row and (row["a"], row["b"], row["c"]) for row in found]
    assert rows[:3] == [(1, "x", None), (2, "y,z", None), None]
    assert rows[3:] == [(7, None, None), (8, "", None), (4, "a\nb", None)]


@pytest.mark.parametrize(
    "value",
    [b"x,1", b"3", b"", b"1,2,3", b'5,"x', b'9,x"y,"z', b"1,2\n3,4", b"\xff,1", b"5000000000,x"],
)
def test_csv_that_does_not_parse_harms_no_other(value):
    good = [b"%d,x" % number for number in range(5)]
    for place in (0, 2, 5):
        found, reasons = _parsed(_CSV, *good[:place], value, *good[place:])
        assert list(reasons) == [place]
        assert [row and row["a"] for row in found] == [*range(place), None, *range(place, 5)]


@pytest.mark.parametrize("seed", range(40))
def test_a_block_parses_as_its_records_do_alone(seed):
    """The oracle is Python's own parser, for one record at a time."""
    prng = Prng(seed)
    pool = [b'{"id":1}', b'{"id":22,"x":[1,{}]}', b"{}", *(value for value, _ in _BAD_JSON), None]
    values = [prng.choice(pool) for _ in range(prng.below(30))]
    found, reasons = _parsed(_JSON, *values)
    for row, value in enumerate(values):
        alone, why = _parsed(_JSON, value)
        assert alone == [found[row]]
        assert (row in reasons) == bool(why)
        if value is not None and row not in reasons:
            assert found[row]["id"] == json.loads(value).get("id")


def test_a_reason_does_not_repeat_a_large_record():
    _, reasons = _parsed(_CSV, b"1," + b"x," * 5_000)
    assert len(reasons[0]) <= 201

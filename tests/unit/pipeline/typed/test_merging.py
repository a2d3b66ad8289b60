"""Schemas that are merged: what is added, what stays, what is refused."""

import pyarrow as pa
import pytest

from tidelog.errors import UsageError
from tidelog.pipeline.typed.merging import is_extended, merged_type
from tidelog.pipeline.typed.schema_text import parse_schema, schema_text

_THERE = "id bigint, name string, at struct<x: float>, lines array<struct<n: int>>"


@pytest.mark.parametrize(
    ("wanted", "merged"),
    [
        (_THERE, _THERE),
        ("more date, name string", f"{_THERE}, more date"),
        ("at struct<y: date>", _THERE.replace("x: float", "x: float, y: date")),
        ("lines array<struct<sku: string>>", _THERE.replace("n: int", "n: int, sku: string")),
        ("id int", _THERE),
        ("id tinyint", _THERE),
        ("at struct<x: double>", _THERE.replace("float", "double")),
        ("lines array<struct<n: bigint>>", _THERE.replace("n: int", "n: bigint")),
    ],
)
def test_fields_are_added_and_wider_types_stay(wanted, merged):
    found = merged_type(parse_schema(_THERE), parse_schema(wanted), "value")
    assert schema_text(found) == merged


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("id string", "`value.id` is `bigint` in the table and would become `string`"),
        ("at struct<x: int>", "`value.at.x` is `float` in the table and would become `int`"),
        ("lines array<struct<n: double>>", r"`value.lines\[\].n` is `int`"),
        ("name array<string>", "`value.name` is `string`"),
        ("ID bigint", "`value.ID` is `id` in the table, which differs in case alone"),
    ],
)
def test_other_changes_are_refused_with_the_place(wanted, message):
    with pytest.raises(UsageError, match=message):
        merged_type(parse_schema(_THERE), parse_schema(wanted), "value")


def test_decimals_become_wider_by_digits_before_the_point_alone():
    narrow, wide, finer = (parse_schema(f"d decimal({one})") for one in ("5,2", "9,2", "9,4"))
    assert merged_type(narrow, wide, "") == merged_type(wide, narrow, "") == wide
    with pytest.raises(UsageError, match=r"would become `decimal\(9,4\)`"):
        merged_type(narrow, finer, "")


def test_what_has_all_fields_with_their_types_is_extended():
    there = parse_schema(_THERE)
    assert is_extended(there, parse_schema(f"{_THERE}, more date"))
    assert is_extended(there, parse_schema(_THERE.replace("x: float", "x: float, y: date")))
    for other in (_THERE.replace("n: int", "n: bigint"), "id bigint", _THERE.replace("x:", "z:")):
        assert not is_extended(there, parse_schema(other))


def test_bytes_do_not_become_texts():
    with pytest.raises(UsageError, match="`key` is `binary` in the table"):
        merged_type(pa.binary(), pa.string(), "key")

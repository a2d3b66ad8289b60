"""Schemas as text: what is taken, what is refused, and that text and types are each other's."""

import pyarrow as pa
import pytest

from tidelog.errors import UsageError
from tidelog.pipeline.typed.schema_text import SIMPLE_TYPES, parse_schema, read_schema, schema_text


def test_every_type_has_a_text_and_the_text_the_type():
    simple = ", ".join(f"c_{name} {name}" for name in SIMPLE_TYPES)
    text = f"{simple}, p decimal(9,2), ```odd`` name, 1` array<struct<x: int, y: array<date>>>"
    found = parse_schema(text)
    assert schema_text(found) == text
    assert [field.type for field in found][: len(SIMPLE_TYPES)] == list(SIMPLE_TYPES.values())
    assert found.field("`odd` name, 1").type.value_type.field("y").type == pa.list_(
        pa.field("element", pa.date32())
    )


def test_a_file_may_have_lines_comments_and_capitals(tmp_path):
    path = tmp_path / "orders.ddl"
    path.write_text("-- orders\nID BigInt, -- the number\n  price: DECIMAL(9, 2),\n")
    assert schema_text(read_schema(path)) == "ID bigint, price decimal(9,2)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no column"),
        ("id", "ends within a column"),
        ("id bigint name string", "after column `id` stands `name`"),
        ("id number", "the type of column `id` is `number`"),
        ("m map<string, int>", "the type of column `m` is `map`"),
        ("id bigint, ID int", "column `ID` is there twice"),
        ("a array<int", "ends within a column"),
        ("a array int", "`int` stands where `<` would be"),
        ("s struct<>", "column `s` has no field"),
        ("p decimal(2,9)", "has no such digits"),
        ("p decimal(39,0)", "has no such digits"),
        ("p decimal(x,y)", "has no two numbers"),
        ("id bigint NOT NULL", "after column `id` stands `NOT`"),
        (", id bigint", "stands where a column's name would be"),
        ("s struct<x int", "after column `x` it ends, within a struct"),
    ],
)
def test_what_is_not_a_schema_is_one_message_with_the_types(text, message):
    with pytest.raises(UsageError, match=message) as caught:
        parse_schema(text)
    assert "`bigint`" in caught.value.hint


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"nix.ddl` cannot be read"):
        read_schema(tmp_path / "nix.ddl")

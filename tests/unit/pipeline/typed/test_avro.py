"""Avro: types of schemas, values, and what does not parse."""

import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest

from tidelog.errors import UsageError
from tidelog.pipeline.typed.avro import arrow_type, reader
from tidelog.pipeline.typed.decoding import Definition, decode
from tidelog.pipeline.typed.formats import Format
from tidelog.pipeline.typed.schema_text import schema_text


def record(*fields, name="r"):
    """A record's schema; fields as (name, type)."""
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": type_} for field, type_ in fields],
    }


def encoded(schema, value):
    """A value as a producer writes it."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def _decoded(schema, values):
    text = json.dumps(schema)
    column = pa.array(values, pa.binary())
    return decode(Format.AVRO, Definition(text), arrow_type(text), column)


def _logical(kind, logical, **more):
    return {"type": kind, "logicalType": logical, **more}


_ADDRESS = record(("street", "string"), ("seen", {"type": "map", "values": "long"}), name="address")
_WIDE = record(
    ("id", "long"),
    ("small", ["null", "int"]),
    ("name", "string"),
    ("kind", {"type": "enum", "name": "kind", "symbols": ["A", "B"]}),
    ("data", "bytes"),
    ("mark", {"type": "fixed", "name": "mark", "size": 2}),
    ("ratio", "float"),
    ("ok", "boolean"),
    ("price", _logical("bytes", "decimal", precision=9, scale=2)),
    ("day", _logical("int", "date")),
    ("at", _logical("long", "timestamp-millis")),
    ("local", _logical("long", "local-timestamp-micros")),
    ("uuid", _logical("string", "uuid")),
    ("times", {"type": "array", "items": _logical("int", "time-millis")}),
    ("home", ["null", _ADDRESS]),
    ("work", "address"),
)
_AT = datetime(2026, 11, 23, 8, 0, 0, tzinfo=UTC)
_VALUE = {
    "id": 7,
    "small": None,
    "name": "x",
    "kind": "B",
    "data": b"\x00",
    "mark": b"ab",
    "ratio": 0.5,
    "ok": True,
    "price": Decimal("1.50"),
    "day": date(2026, 11, 23),
    "at": _AT,
    "local": _AT.replace(tzinfo=None),
    "uuid": UUID(int=5),
    "times": [time(8, 30)],
    "home": None,
    "work": {"street": "s", "seen": {"a": 1}},
}


def test_every_type_of_avro_becomes_one_of_a_table():
    address = "struct<street: string, seen: array<struct<key: string, value: bigint>>>"
    assert schema_text(arrow_type(json.dumps(_WIDE))) == (
        "id bigint, small int, name string, kind string, data binary, mark binary, ratio float, "
        "ok boolean, price decimal(9,2), day date, at timestamp, local timestamp, uuid string, "
        f"times array<string>, home {address}, work {address}"
    )
    column, reasons = _decoded(_WIDE, [encoded(_WIDE, _VALUE), None])
    assert reasons == {}
    shaped = {"uuid": str(UUID(int=5)), "times": ["08:30:00"], "local": _AT}
    shaped["work"] = {"street": "s", "seen": [{"key": "a", "value": 1}]}
    assert column.to_pylist() == [{**_VALUE, **shaped}, None]


def test_what_is_not_avro_by_the_schema_has_a_reason_and_the_others_go_on():
    schema = record(("id", "long"), ("name", "string"))
    good = encoded(schema, {"id": 1, "name": "x"})
    values = [b"", good, good + b"!", b"\x02\xff\xff\xff", b"\x02\x02\xff"]
    column, reasons = _decoded(schema, values)
    assert sorted(reasons) == [0, 2, 3, 4]
    assert reasons[2] == "1 bytes follow the Avro record"
    assert all(reasons[row].startswith("not Avro by its schema: ") for row in (0, 3, 4))
    assert column.to_pylist() == [None, {"id": 1, "name": "x"}, None, None, None]


def test_a_reader_fills_fields_that_the_writer_did_not_have():
    old, new = record(("id", "int")), record(("id", "long"))
    new["fields"].append({"name": "more", "type": "string", "default": "d"})
    read = reader(json.dumps(old), (), json.dumps(new))
    assert read(encoded(old, {"id": 3})) == {"id": 3, "more": "d"}
    back = reader(json.dumps(record(("id", "string"))), (), json.dumps(old))
    with pytest.raises(ValueError, match="SchemaResolutionError"):
        back(encoded(record(("id", "string")), {"id": "x"}))


def test_a_schema_may_import_others():
    imported = (("address", json.dumps(_ADDRESS)),)
    text = json.dumps(record(("home", "address")))
    assert "street: string" in schema_text(arrow_type(text, imported))
    written = encoded(record(("home", _ADDRESS)), {"home": {"street": "s", "seen": {}}})
    assert reader(text, imported, text, imported)(written)["home"]["street"] == "s"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("long", "has no fields"),
        ({"type": "array", "items": "long"}, "has no fields"),
        (record(("x", ["long", "string"])), "a union of 2 types"),
        (record(("x", "null")), "cannot be a column"),
        (record(("next", ["null", "r"])), "the Avro record `r` contains itself"),
        (record(("x", "nix")), "not an Avro schema"),
        ({"type": "record"}, "not an Avro schema"),
    ],
)
def test_schemas_that_no_column_can_have_are_refused(schema, message):
    with pytest.raises(UsageError, match=message):
        arrow_type(json.dumps(schema))

"""Protobuf: types of messages, values, and what does not parse."""

import base64
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, json_format, message_factory

from tidelog.errors import UsageError
from tidelog.pipeline.typed.decoding import Definition, decode
from tidelog.pipeline.typed.formats import Format
from tidelog.pipeline.typed.protobuf import (
    _files,
    arrow_type,
    descriptor_set,
    message_at,
    read_descriptors,
    reader,
    split_path,
)
from tidelog.pipeline.typed.schema_text import schema_text

_T = descriptor_pb2.FieldDescriptorProto.Type


def message(name, *fields, nested=()):
    """A message; fields as (name, type or message name, repeated), numbered from 1."""
    found = descriptor_pb2.DescriptorProto(name=name, nested_type=nested)
    for number, (field, type_, *more) in enumerate(fields, 1):
        one = found.field.add(name=field, number=number, label="LABEL_OPTIONAL")
        if more:
            one.label = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
        if type_.startswith("TYPE_"):
            one.type = _T.Value(type_)
        else:
            kind = "TYPE_ENUM" if type_.endswith("Kind") else "TYPE_MESSAGE"
            one.type, one.type_name = _T.Value(kind), type_
    return found


def file(*messages, name="orders.proto", imports=()):
    """A file of package `shop`, of proto3."""
    kind = descriptor_pb2.EnumDescriptorProto(name="Kind")
    kind.value.add(name="NONE", number=0)
    kind.value.add(name="GIFT", number=1)
    return descriptor_pb2.FileDescriptorProto(
        name=name,
        package="shop",
        syntax="proto3",
        message_type=messages,
        enum_type=[kind] if name == "orders.proto" else [],
        dependency=imports,
    )


def text_of(*files):
    """The descriptor set of files as text."""
    found = descriptor_pb2.FileDescriptorSet(file=files)
    return base64.b64encode(found.SerializeToString()).decode()


def encoded(text, name, **values):
    """A message as a producer writes it."""
    pool = _files(text)[-1].pool
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()
    return json_format.ParseDict(values, made).SerializeToString()


_ENTRY = message("CountsEntry", ("key", "TYPE_STRING"), ("value", "TYPE_INT32"))
_ENTRY.options.map_entry = True
_KNOWN = ("google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto")
_WIDE = text_of(
    file(
        message("Line", ("sku", "TYPE_STRING"), ("n", "TYPE_UINT32")),
        message(
            "Order",
            ("id", "TYPE_INT64"),
            ("big", "TYPE_UINT64"),
            ("ok", "TYPE_BOOL"),
            ("data", "TYPE_BYTES"),
            ("ratio", "TYPE_DOUBLE"),
            ("kind", ".shop.Kind"),
            ("at", ".google.protobuf.Timestamp"),
            ("note", ".google.protobuf.StringValue"),
            ("lines", ".shop.Line", "repeated"),
            ("counts", ".shop.Order.CountsEntry", "repeated"),
            ("gift", ".shop.Line"),
            nested=[_ENTRY],
        ),
        imports=_KNOWN,
    )
)
_TYPE = (
    "id bigint, big decimal(20,0), ok boolean, data binary, ratio double, kind string, "
    "at timestamp, note string, lines array<struct<sku: string, n: bigint>>, "
    "counts array<struct<key: string, value: int>>, gift struct<sku: string, n: bigint>"
)


def _decoded(text, name, values):
    column = pa.array(values, pa.binary())
    type_, _ = arrow_type(text, name)
    return decode(Format.PROTOBUF, Definition(text, message=name), type_, column)


def test_every_type_of_protobuf_becomes_one_of_a_table():
    type_, name = arrow_type(_WIDE, "shop.Order")
    assert (schema_text(type_), name) == (_TYPE, "shop.Order")
    at = datetime(2026, 11, 23, 8, 0, 0, 5, tzinfo=UTC)
    lines = [{"sku": "a", "n": 4}]
    value = {"id": 7, "big": 2**63, "kind": "GIFT", "at": "2026-11-23T08:00:00.000005Z"}
    written = encoded(
        _WIDE, "shop.Order", **value, data="AA==", note="n", lines=lines, counts={"a": 1}
    )
    column, reasons = _decoded(_WIDE, "shop.Order", [written, b"", None, written + b"\x30\x09"])
    assert reasons == {}
    full, empty, null, unnamed = column.to_pylist()
    assert full == {
        "id": 7,
        "big": Decimal(2**63),
        "ok": False,
        "data": b"\0",
        "ratio": 0.0,
        "kind": "GIFT",
        "at": at,
        "note": "n",
        "lines": lines,
        "counts": [{"key": "a", "value": 1}],
        "gift": None,
    }
    assert (empty["id"], empty["at"], empty["note"], empty["lines"]) == (0, None, None, [])
    assert null is None and unnamed["kind"] == "9"


def test_what_is_not_protobuf_by_the_schema_has_a_reason():
    column, reasons = _decoded(_WIDE, "shop.Line", [b"\x0a\x05x", b"\x0a\x01x"])
    assert list(reasons) == [0] and reasons[0].startswith("not Protobuf by its schema: ")
    assert column.to_pylist() == [None, {"sku": "x", "n": 0}]


def test_a_file_names_its_message(tmp_path):
    path = tmp_path / "orders.desc"
    path.write_bytes(base64.b64decode(_WIDE))
    assert read_descriptors(path) == (_WIDE, "")
    text, name = read_descriptors(tmp_path / "orders.desc#shop.Order")
    assert arrow_type(text, name)[1] == "shop.Order"
    assert arrow_type(text, "")[1] == "shop.Line"
    (tmp_path / "empty").write_bytes(b"")
    for bad in ("nix", "empty"):
        with pytest.raises(UsageError, match=f"{bad}` cannot be read"):
            read_descriptors(tmp_path / bad)


@pytest.mark.parametrize(
    ("text", "name", "problem"),
    [
        (_WIDE, "shop.Nix", "has no message `shop.Nix`"),
        (text_of(file()), "", "has no message"),
        (text_of(file(message("Node", ("next", ".shop.Node")))), "", "contains itself"),
        (text_of(file(message("A", ("b", ".else.B")), imports=["else.proto"])), "", "not complete"),
    ],
)
def test_schemas_that_no_column_can_have_are_refused(text, name, problem):
    with pytest.raises(UsageError, match=problem):
        arrow_type(text, name)


def test_a_registrys_schema_imports_others():
    line = file(message("Line", ("sku", "TYPE_STRING")), name="line.proto")
    order = file(message("Order", ("line", ".shop.Line")), imports=["line.proto"])
    as_text = [base64.b64encode(one.SerializeToString()).decode() for one in (line, order)]
    found = descriptor_set(as_text[1], [("line.proto", as_text[0])])
    assert schema_text(arrow_type(found, "")[0]) == "line struct<sku: string>"
    written = encoded(found, "shop.Order", line={"sku": "x"})
    assert reader(found, "shop.Order")(written) == {"line": {"sku": "x"}}
    with pytest.raises(ValueError, match="sends no descriptor"):
        descriptor_set('syntax = "proto3";', [])


def test_the_path_of_numbers_says_which_message_follows():
    assert split_path(b"\x00rest") == ((0,), b"rest")
    assert split_path(b"\x02\x02rest") == ((1,), b"rest")
    assert split_path(b"\x04\x02\x00rest") == ((1, 0), b"rest")
    assert message_at(_WIDE, (1,)) == "shop.Order"
    assert message_at(_WIDE, (1, 0)) == "shop.Order.CountsEntry"
    for bad in (b"", b"\x02", b"\x01\x02", b"\xff\xff\xff\xff\xff\xff", b"\x02\x01x"):
        with pytest.raises(ValueError, match="does not say which message"):
            split_path(bad)
    for path in ((2,), (0, 0)):
        with pytest.raises(ValueError, match="no message at"):
            message_at(_WIDE, path)

"""Values with the id of their schema, and a registry that is asked through a socket."""

import pyarrow as pa
import pytest

from tests.unit.pipeline.bronze_rows import rows
from tests.unit.pipeline.typed import test_avro, test_protobuf
from tests.unit.pipeline.typed.registry_server import framed, registry_server
from tests.unit.pipeline.typed.test_avro import record
from tidelog.pipeline.errors import ClusterUnavailable, RegistryUnavailable
from tidelog.pipeline.tables.addresses import TableAddress
from tidelog.pipeline.tables.table_files import TableTask, write_files
from tidelog.pipeline.typed.definitions import named_schema
from tidelog.pipeline.typed.formats import Format
from tidelog.pipeline.typed.parsing import Layout, parse
from tidelog.pipeline.typed.registry import schema_by_id
from tidelog.pipeline.typed.schema_text import schema_text

_OLD = record(("id", "int"))
_NEW = record(("id", "long"))
_NEW["fields"].append({"name": "name", "type": ["null", "string"], "default": None})


@pytest.fixture
def registry():
    with registry_server() as running:
        yield running


def _layout(format_, registry, subject="t-value", path=None):
    type_, definition = named_schema(format_, path, registry.url, subject)
    return Layout(format_, type_, (), definition)


def _parsed(layout, *values):
    column, reasons = parse(layout, pa.array(values, pa.binary()))
    return column.to_pylist(), reasons


def test_each_value_is_read_by_the_schema_that_it_was_written_with(registry):
    old, new = registry.register("t-value", _OLD), registry.register("t-value", _NEW)
    layout = _layout(Format.AVRO, registry)
    assert schema_text(layout.type) == "id bigint, name string"
    values = [
        framed(old, test_avro.encoded(_OLD, {"id": 1})),
        framed(new, test_avro.encoded(_NEW, {"id": 2, "name": "x"})),
        None,
        framed(old, test_avro.encoded(_OLD, {"id": 3})),
    ]
    expected = [{"id": 1, "name": None}, {"id": 2, "name": "x"}, None, {"id": 3, "name": None}]
    assert _parsed(layout, *values) == (expected, {})
    assert len(registry.asked) == 3, "each id once, and the newest"


def test_what_a_record_is_guilty_of_is_its_reason(registry):
    number = registry.register("t-value", _NEW)
    other = registry.register("u-value", record(("id", "string")))
    proto = registry.register("p-value", test_protobuf.file(test_protobuf.message("M")))
    good = test_avro.encoded(_NEW, {"id": 2, "name": "x"})
    values = [
        framed(99, good),
        good,
        b"\0\0",
        framed(other, test_avro.encoded(record(("id", "string")), {"id": "x"})),
        framed(proto, good),
        framed(99, good),
        framed(number, good),
    ]
    found, reasons = _parsed(_layout(Format.AVRO, registry), *values)
    assert found == [None] * 6 + [{"id": 2, "name": "x"}]
    assert reasons[0] == reasons[5] == "the registry has no schema 99"
    assert reasons[1] == reasons[2] == "it does not begin with a zero and the id of a schema"
    assert "SchemaResolutionError" in reasons[3]
    assert reasons[4] == f"schema {proto} of the registry is of kind PROTOBUF"
    assert sum("/99?" in path for path in registry.asked) == 1, "asked for each record"


def test_protobuf_says_which_message_and_imports_others(registry):
    line = test_protobuf.file(
        test_protobuf.message("Line", ("sku", "TYPE_STRING")), name="line.proto"
    )
    order = test_protobuf.file(
        test_protobuf.message("Order", ("line", ".shop.Line")),
        test_protobuf.message("Other", ("x", "TYPE_INT32")),
        imports=["line.proto"],
    )
    registry.register("line", line)
    reference = {"name": "line.proto", "subject": "line", "version": 1}
    number = registry.register("t-value", order, [reference])
    layout = _layout(Format.PROTOBUF, registry)
    assert schema_text(layout.type) == "line struct<sku: string>"
    written = test_protobuf.encoded(layout.definition.text, "shop.Order", line={"sku": "x"})
    found, reasons = _parsed(
        layout, framed(number, b"\0" + written), framed(number, b"\2\2"), framed(number, b"")
    )
    assert found == [{"line": {"sku": "x"}}, None, None]
    assert reasons == {
        1: "it is a message `shop.Other`, not a `shop.Order`",
        2: "it does not say which message of the schema it is",
    }


@pytest.mark.parametrize("trouble", ["status", "down"])
def test_a_registry_that_does_not_answer_ends_the_task_with_the_records_place(
    registry, tmp_path, trouble
):
    number = registry.register("t-value", _NEW)
    layout = _layout(Format.AVRO, registry)
    if trouble == "down":
        registry.close()
    else:
        registry.broken = 503
    value = framed(number, test_avro.encoded(_NEW, {"id": 2, "name": None})).decode("latin-1")
    batch = rows(5, 8)
    batch = batch.set_column(
        batch.schema.get_field_index("value"),
        "value",
        pa.array([None, *[value.encode("latin-1")] * 2], pa.binary()),
    )
    with pytest.raises(
        RegistryUnavailable, match=r"cannot be asked: .*, for the value at `t-0` "
    ) as e:
        write_files(TableTask(TableAddress.of(tmp_path), 0, value=layout), iter([batch]))
    assert str(e.value).endswith("offset 6") and isinstance(e.value, ClusterUnavailable)
    assert list(tmp_path.rglob("*.parquet")) == []
    registry.broken = None
    if trouble == "status":
        assert schema_by_id(registry.url, number).kind == "AVRO", "the failure is remembered"

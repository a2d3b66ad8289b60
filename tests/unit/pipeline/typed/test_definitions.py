"""The schema that a user names: files, subjects, and what is refused."""

import json

import pytest

from tests.unit.pipeline.typed.registry_server import registry_server
from tests.unit.pipeline.typed.test_avro import record
from tidelog.errors import UsageError
from tidelog.pipeline.typed.definitions import named_schema
from tidelog.pipeline.typed.formats import Format
from tidelog.pipeline.typed.schema_text import schema_text

_SCHEMA = record(("id", "int"))


@pytest.fixture
def registry():
    with registry_server() as running:
        yield running


def test_what_cannot_be_read_with_is_refused(registry, tmp_path):
    registry.register("t-value", _SCHEMA)
    registry.register("many-value", record(("x", ["long", "string"])))
    (tmp_path / "x.avsc").write_text("{")
    for arguments, message in (
        ((Format.PROTOBUF, None, registry.url, "t-value"), "`t-value`: it is of kind AVRO"),
        ((Format.AVRO, None, registry.url, "nix"), "`nix`: the registry has no such subject"),
        ((Format.AVRO, None, "registry:8081", "x"), "is not an address of a registry"),
        ((Format.AVRO, None, "", "x"), "have no fields without their schema"),
        ((Format.AVRO, tmp_path / "nix", "", "x"), "nix`: it cannot be read"),
        ((Format.AVRO, tmp_path / "x.avsc", "", "x"), "x.avsc`: it is not an Avro schema"),
        ((Format.AVRO, None, registry.url, "many-value"), "`many-value`: .* union of 2 types"),
    ):
        with pytest.raises(UsageError, match=message):
            named_schema(*arguments)


def test_files_and_subjects_give_types_and_definitions(registry, tmp_path):
    registry.register("t-value", record(("id", "long")))
    path = tmp_path / "reader.avsc"
    path.write_text(json.dumps(_SCHEMA))
    type_, definition = named_schema(Format.AVRO, path, registry.url, "t-value")
    assert (schema_text(type_), definition.registry) == ("id int", registry.url)
    type_, definition = named_schema(Format.AVRO, None, registry.url, "t-value")
    assert (schema_text(type_), definition.registry) == ("id bigint", registry.url)
    ddl = tmp_path / "x.ddl"
    ddl.write_text("id date")
    assert schema_text(named_schema(Format.JSON, ddl, "", "t-value")[0]) == "id date"
    assert named_schema(Format.JSON, None, "", "t-value") == (None, None)

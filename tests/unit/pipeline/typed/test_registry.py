"""A registry that is asked through a socket."""

import json

import pytest

from tests.unit.pipeline.typed.registry_server import registry_server
from tests.unit.pipeline.typed.test_avro import record
from tidelog.pipeline.errors import RegistryUnavailable
from tidelog.pipeline.typed.registry import (
    Registered,
    UnknownSchema,
    newest_schema,
    schema_by_id,
    split,
)

_SCHEMA = record(("id", "int"))


@pytest.fixture
def registry():
    with registry_server() as running:
        yield running


def test_a_user_of_the_registry_is_named_to_it_and_not_in_messages(registry):
    registry.register("a/b", _SCHEMA)
    url = registry.url.replace("//", "//me:p%40ss@")
    assert newest_schema(url, "a/b") == Registered("AVRO", json.dumps(_SCHEMA))
    assert registry.authorization == "Basic bWU6cEBzcw=="
    registry.broken = 401
    with pytest.raises(RegistryUnavailable, match=r"`http://127[^@]*` cannot be asked: .* 401"):
        newest_schema(url, "a/b")


def test_schemas_are_found_by_id_and_by_subject_or_not_at_all(registry):
    first = registry.register("t-value", _SCHEMA)
    second = registry.register("t-value", record(("id", "long")))
    assert newest_schema(registry.url, "t-value") == schema_by_id(registry.url, second)
    assert schema_by_id(registry.url, first).text == json.dumps(_SCHEMA)
    for ask in (lambda: newest_schema(registry.url, "u"), lambda: schema_by_id(registry.url, 9)):
        with pytest.raises(UnknownSchema):
            ask()
    assert split(b"\0\0\0\1\2x") == (258, b"x")

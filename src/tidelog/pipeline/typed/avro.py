"""Avro: the Arrow type of a schema, and values decoded by fastavro.

A value is read with the schema it was written with (from the registry, or the one schema there is)
and resolved to the reader's by Avro's rules: a field that the writer did not have gets its default.

| Avro | column |
| --- | --- |
| `int`, `long`, `float`, `double`, `boolean`, `string` | the same |
| `bytes` and `fixed`, `enum` | `binary`, `string` |
| `decimal`, `date`, `timestamp-*` | `decimal`, `date`, `timestamp` |
| `local-timestamp-*` | `timestamp`, as if it were UTC |
| `uuid`, `time-*` | `string` |
| `array`, `record` | `array`, `struct` |
| `map` | `array<struct<key: string, value: …>>` |
| a union with `null` | the other type |

Unions of several types, and records that contain themselves, cannot be columns.
Source: the specification of Avro 1.12, logical types and schema resolution.
"""

import io
import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from tidelog.errors import UsageError

_PRIMITIVES: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_LOGICAL: Final = {
    "date": pa.date32(),
    **dict.fromkeys(
        (f"{kind}timestamp-{unit}" for kind in ("", "local-") for unit in ("millis", "micros")),
        _TIMESTAMP,
    ),
    **dict.fromkeys(("uuid", "time-millis", "time-micros"), pa.string()),
}
_TEXTS: Final = ("uuid", "time-millis", "time-micros")
Shape = Callable[[Any], Any]


def arrow_type(text: str, references: tuple[tuple[str, str], ...] = ()) -> pa.StructType:
    """The type of a record schema. Raises `UsageError`."""
    schema = _parsed(text, references)
    found = _Types(schema).type(schema)
    if not pa.types.is_struct(found):
        raise UsageError(f"an Avro schema of `{found}` has no fields", "give that of a record")
    return found


@lru_cache
def reader(
    written: str,
    written_references: tuple[tuple[str, str], ...],
    wanted: str,
    wanted_references: tuple[tuple[str, str], ...] = (),
) -> Callable[[bytes], dict[str, Any]]:
    """Decodes values of one writer's schema by the reader's. The result raises `ValueError`."""
    fastavro = _fastavro()
    writer_schema = _parsed(written, written_references)
    reader_schema = _parsed(wanted, wanted_references)
    shape = _Types(reader_schema).shape(reader_schema)
    same = None if written == wanted else reader_schema

    def read(value: bytes) -> dict[str, Any]:
        stream = io.BytesIO(value)
        try:
            found = fastavro.schemaless_reader(stream, writer_schema, same)
        except Exception as error:
            # fastavro lets through whatever the bytes lead to: EOFError, IndexError, KeyError, …
            text = str(error).partition("\n")[0]
            raise ValueError(f"not Avro by its schema: {type(error).__name__} {text}") from None
        if stream.tell() != len(value):
            raise ValueError(f"{len(value) - stream.tell()} bytes follow the Avro record")
        shaped: dict[str, Any] = shape(found) if shape else found
        return shaped

    return read


def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError:
        raise UsageError(
            "`--value-format avro` needs the package `fastavro`",
            "pip install 'tidelog[spark,avro]'",
        ) from None
    return fastavro


def _parsed(text: str, references: tuple[tuple[str, str], ...]) -> Any:
    fastavro = _fastavro()
    try:
        named: dict[str, Any] = {}
        for _, inner in references:
            fastavro.parse_schema(json.loads(inner), named_schemas=named)
        schema = fastavro.parse_schema(json.loads(text), named_schemas=named)
    except Exception as error:
        raise UsageError(
            f"it is not an Avro schema: {type(error).__name__} {error}",
            "give the JSON text of a record's schema, an `.avsc` file",
        ) from error
    return schema


class _Types:
    """Walks a schema."""

    def __init__(self, whole: Any) -> None:
        # Named types by their full names; fastavro keeps them in a schema that it has parsed.
        self._named: dict[str, Any] = {}
        if isinstance(whole, dict):
            self._named = whole.get("__named_schemas", {})
        # The names of the records that the walk is in.
        self._within: list[str] = []

    def type(self, schema: Any) -> Any:
        """The Arrow type."""
        schema = self._resolved(schema)
        if isinstance(schema, str):
            return _PRIMITIVES[schema]
        kind, logical = schema["type"], schema.get("logicalType")
        if logical == "decimal":
            return pa.decimal128(schema["precision"], schema.get("scale", 0))
        if logical in _LOGICAL:
            return _LOGICAL[logical]
        if kind in ("record", "error"):
            fields = [pa.field(one["name"], self.type(one["type"])) for one in self._enter(schema)]
            return pa.struct(fields)
        if kind == "array":
            return pa.list_(pa.field("element", self.type(schema["items"])))
        if kind == "map":
            pair = [("key", pa.string()), ("value", self.type(schema["values"]))]
            return pa.list_(pa.field("element", pa.struct(pair)))
        return {"enum": pa.string(), "fixed": pa.binary()}.get(kind) or self.type(kind)

    def shape(self, schema: Any) -> Shape | None:
        """What makes of a decoded value what Arrow takes; `None` where it is that already."""
        schema = self._resolved(schema)
        if isinstance(schema, str):
            return None
        kind = schema["type"]
        if schema.get("logicalType") in _TEXTS:
            return lambda value: None if value is None else str(value)
        if kind == "array":
            element = self.shape(schema["items"])
            if element is None:
                return None
            return lambda value: value and [element(one) for one in value]
        if kind == "map":
            inner = self.shape(schema["values"]) or (lambda value: value)
            return lambda value: value and [{"key": k, "value": inner(v)} for k, v in value.items()]
        if kind not in ("record", "error"):
            return None
        found = {one["name"]: self.shape(one["type"]) for one in self._enter(schema)}
        shapes = {name: shape for name, shape in found.items() if shape is not None}
        return (lambda value: value and _shaped(value, shapes)) if shapes else None

    def _enter(self, schema: Any) -> Any:
        """The fields of a record, one after the other; then the walk has left it."""
        self._within.append(schema["name"])
        yield from schema["fields"]
        self._within.pop()

    def _resolved(self, schema: Any) -> Any:
        """The schema without the names and the unions that mean another."""
        if isinstance(schema, list):
            others = [one for one in schema if one != "null"]
            if len(others) != 1:
                raise UsageError(
                    f"the Avro schema has a union of {len(others)} types, which no column has",
                    "give `--value-schema` with a reader's schema that has one of them",
                )
            return self._resolved(others[0])
        if isinstance(schema, str) and schema not in _PRIMITIVES:
            if schema in self._within:
                raise UsageError(
                    f"the Avro record `{schema}` contains itself, which no column can",
                    "give a schema without that field",
                )
            if schema not in self._named:
                raise UsageError(
                    f"the Avro type `{schema}` cannot be a column", "give a schema without it"
                )
            return self._named[schema]
        return schema


def _shaped(value: dict[str, Any], shapes: dict[str, Shape]) -> dict[str, Any]:
    for name, shape in shapes.items():
        value[name] = shape(value[name])
    return value

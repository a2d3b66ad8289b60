"""Protobuf: the Arrow type of a message, and values decoded by Google's package.

Schemas are descriptors, not the text of `.proto` files, which only `protoc` reads: a file is what
`protoc --include_imports --descriptor_set_out=FILE` writes, and the registry sends descriptors too.
Behind the id of a schema, Confluent's serializers write which message of it follows, as a path of
numbers.

| Protobuf | column |
| --- | --- |
| `int32`, `int64`, `float`, `double`, `bool`, `string`, `bytes` | the same |
| `uint32`, `uint64` | `bigint`, `decimal(20,0)` |
| `enum` | `string`, the name; the number of one that the schema does not name |
| message, `repeated` | `struct`, `array` |
| `map` | `array<struct<key, value>>` |
| `Timestamp`, `StringValue` and its kind | `timestamp`; the value or null |

A field without presence (a plain one of proto3) that is not there has its default, others are null.
Messages that contain themselves cannot be columns.
Source: the Protocol Buffers encoding, and Confluent's documentation of the wire format.
"""

import base64
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

from tidelog.errors import UsageError

_KNOWN: Final = {
    one.DESCRIPTOR.name: one.DESCRIPTOR.serialized_pb
    for one in (
        *(any_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2),
        *(struct_pb2, timestamp_pb2, wrappers_pb2),
    )
}
"""Files that everybody imports and no registry has."""
_F: Final = FieldDescriptor
_SCALARS: Final = {
    _F.CPPTYPE_INT32: pa.int32(),
    _F.CPPTYPE_INT64: pa.int64(),
    _F.CPPTYPE_UINT32: pa.int64(),
    _F.CPPTYPE_UINT64: pa.decimal128(20, 0),
    _F.CPPTYPE_DOUBLE: pa.float64(),
    _F.CPPTYPE_FLOAT: pa.float32(),
    _F.CPPTYPE_BOOL: pa.bool_(),
    _F.CPPTYPE_ENUM: pa.string(),
}
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}" for name in wrappers_pb2.DESCRIPTOR.message_types_by_name
)
_MICROS: Final = 1_000_000
Get = Callable[[Any], Any]


def read_descriptors(path: Path) -> tuple[str, str]:
    """A descriptor set of a file, as text, and the name of a message, if `path` ends with one:
    `orders.desc#shop.Order`. Raises `UsageError`."""
    name, _, message = str(path).partition("#")
    try:
        data = Path(name).read_bytes()
        found = descriptor_pb2.FileDescriptorSet.FromString(data)
        if not found.file:
            raise DecodeError("no file is in it")
    except (OSError, DecodeError) as error:
        raise UsageError(
            f"the schema `{name}` cannot be read: {error}",
            "give what `protoc --include_imports --descriptor_set_out=FILE` writes",
        ) from error
    return base64.b64encode(data).decode(), message


def descriptor_set(text: str, references: Iterable[tuple[str, str]]) -> str:
    """The same of a registry's schema and those that it imports."""
    found = descriptor_pb2.FileDescriptorSet()
    for name, serialized in (*references, ("", text)):
        file = found.file.add()
        try:
            file.ParseFromString(base64.b64decode(serialized, validate=True))
        except (DecodeError, ValueError) as error:
            raise ValueError(f"the registry sends no descriptor: {error}") from None
        file.name = name or file.name or "schema.proto"
    return base64.b64encode(found.SerializeToString()).decode()


def arrow_type(text: str, message: str) -> tuple[pa.StructType, str]:
    """The type of a message of a descriptor set, and the message's full name. Without `message` it
    is the first of the last file. Raises `UsageError`."""
    found = _message(text, message)
    return _struct(found, ()), found.full_name


@lru_cache
def reader(text: str, message: str) -> Callable[[bytes], dict[str, Any]]:
    """Decodes values of a message. The result raises `ValueError`."""
    descriptor = _message(text, message)
    make, get = message_factory.GetMessageClass(descriptor), _fields(descriptor)

    def read(value: bytes) -> dict[str, Any]:
        try:
            found = make.FromString(value)
        except DecodeError as error:
            raise ValueError(f"not Protobuf by its schema: {error}") from None
        return {name: one(found) for name, one in get.items()}

    return read


@lru_cache
def message_at(text: str, path: tuple[int, ...]) -> str:
    """The full name of a message by its place in the last file. Raises `ValueError`."""
    found: Any = _files(text)[-1]
    inner = list(found.message_types_by_name.values())
    try:
        for number in path:
            found = inner[number]
            inner = list(found.nested_types)
    except IndexError:
        raise ValueError(f"its schema has no message at {list(path)}") from None
    return str(found.full_name)


def split_path(value: bytes) -> tuple[tuple[int, ...], bytes]:
    """Which message of the schema follows, and its bytes. Raises `ValueError`."""
    count, at = _zigzag(value, 0)
    if count == 0:
        return (0,), value[at:]
    if not 0 < count <= len(value):
        raise ValueError("it does not say which message of the schema it is")
    path = []
    for _ in range(count):
        number, at = _zigzag(value, at)
        path.append(number)
    if min(path) < 0:
        raise ValueError("it does not say which message of the schema it is")
    return tuple(path), value[at:]


def _zigzag(value: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while True:
        if at >= len(value) or shift > 28:
            raise ValueError("it does not say which message of the schema it is")
        byte = value[at]
        found, at, shift = found | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), at


@lru_cache
def _files(text: str) -> tuple[Any, ...]:
    """The files of a descriptor set, each in a pool that has what it imports."""
    files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(text)).file
    pool = descriptor_pool.DescriptorPool()
    given = {one.name for one in files}
    try:
        for serialized in (one for name, one in _KNOWN.items() if name not in given):
            pool.AddSerializedFile(serialized)
        for one in files:
            pool.Add(one)
        return tuple(pool.FindFileByName(one.name) for one in files)
    except (TypeError, KeyError) as error:
        raise UsageError(
            f"the Protobuf schema is not complete: {error}", "use `protoc --include_imports`"
        ) from error


def _message(text: str, name: str) -> Any:
    files = _files(text)
    if not name:
        found = list(files[-1].message_types_by_name.values())
        if not found:
            raise UsageError(
                f"`{files[-1].name}` has no message", "name one: `--value-schema FILE#MESSAGE`"
            )
        return found[0]
    try:
        return files[-1].pool.FindMessageTypeByName(name)
    except KeyError:
        raise UsageError(
            f"the Protobuf schema has no message `{name}`", "give its full name: `package.Message`"
        ) from None


def _struct(message: Any, within: tuple[str, ...]) -> Any:
    if message.full_name in within:
        raise UsageError(
            f"the message `{message.full_name}` contains itself, which no column can",
            "give a schema without that field",
        )
    within = (*within, message.full_name)
    return pa.struct([pa.field(one.name, _field_type(one, within)) for one in message.fields])


def _field_type(field: Any, within: tuple[str, ...]) -> Any:
    one = _single_type(field, within)
    return pa.list_(pa.field("element", one)) if field.is_repeated else one


def _single_type(field: Any, within: tuple[str, ...]) -> Any:
    if field.cpp_type == _F.CPPTYPE_MESSAGE:
        message = field.message_type
        if message.full_name == _TIMESTAMP:
            return pa.timestamp("us", tz="UTC")
        if message.full_name in _WRAPPERS:
            return _single_type(message.fields_by_name["value"], within)
        return _struct(message, within)
    if field.cpp_type == _F.CPPTYPE_STRING:
        return pa.binary() if field.type == _F.TYPE_BYTES else pa.string()
    return _SCALARS[field.cpp_type]


def _fields(message: Any) -> dict[str, Get]:
    return {field.name: _getter(field) for field in message.fields}


def _getter(field: Any) -> Get:
    """What gives the field of a message."""
    name, one = field.name, _single(field)
    if field.is_repeated and _is_map(field):
        value = _single(field.message_type.fields_by_name["value"])
        return lambda message: [
            {"key": key, "value": value(inner)} for key, inner in getattr(message, name).items()
        ]
    if field.is_repeated:
        return lambda message: [one(inner) for inner in getattr(message, name)]
    if field.has_presence:
        return lambda message: one(getattr(message, name)) if message.HasField(name) else None
    return lambda message: one(getattr(message, name))


def _is_map(field: Any) -> bool:
    is_message = field.cpp_type == _F.CPPTYPE_MESSAGE
    return bool(is_message and field.message_type.GetOptions().map_entry)


def _single(field: Any) -> Get:
    """What Arrow takes for one value of a field."""
    if field.cpp_type == _F.CPPTYPE_ENUM:
        names = {number: one.name for number, one in field.enum_type.values_by_number.items()}
        return lambda value: names.get(value, str(value))
    if field.cpp_type != _F.CPPTYPE_MESSAGE:
        return lambda value: value
    if field.message_type.full_name == _TIMESTAMP:
        return lambda value: value.seconds * _MICROS + value.nanos // 1000
    if field.message_type.full_name in _WRAPPERS:
        return lambda value: value.value
    inner = _fields(field.message_type)
    return lambda value: {name: get(value) for name, get in inner.items()}

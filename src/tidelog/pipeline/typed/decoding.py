"""Avro and Protobuf values to a column: each is decoded by a library, then Arrow takes all at once.

Where a record does not parse, its reason is kept and the others go on: bytes that are not what the
schema says, an id that the registry does not know, a writer's schema that the reader's cannot take,
a value that the table's type does not hold. A registry that does not answer is not a fault of
records: `RegistryUnavailable` ends the task, and so the batch, before anything is committed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from tidelog.pipeline.errors import RegistryUnavailable
from tidelog.pipeline.typed import avro, protobuf, registry
from tidelog.pipeline.typed.formats import Format
from tidelog.pipeline.typed.registry import PREFIX_BYTES


@dataclass(frozen=True, slots=True)
class Definition:
    """The schema of values that a library decodes."""

    text: str
    """Avro's JSON, or a descriptor set in base64."""
    references: tuple[tuple[str, str], ...] = ()
    """What an Avro schema imports."""
    message: str = ""
    """The full name of a Protobuf message."""
    registry: str = ""
    """The registry's address, where values begin with the id of their schema."""


class _UnknownId(ValueError):
    """The registry has no schema of that id."""


def decode(
    format_: Format, definition: Definition, type_: Any, column: Any
) -> tuple[Any, dict[int, str]]:
    """The column with the type, and by row why a value does not parse. Raises
    `RegistryUnavailable` with the number of the row."""
    read = _reader(format_, definition)
    found: list[Any] = []
    reasons: dict[int, str] = {}
    # Ids that the registry was asked for in vain, by the bytes that have them.
    unknown: dict[bytes, str] = {}
    for row, value in enumerate(column.to_pylist()):
        try:
            if value is not None and value[:PREFIX_BYTES] in unknown:
                raise ValueError(unknown[value[:PREFIX_BYTES]])
            found.append(None if value is None else read(value))
        except ValueError as error:
            if isinstance(error, _UnknownId):
                unknown[value[:PREFIX_BYTES]] = str(error)
            reasons[row] = str(error)
            found.append(None)
        except RegistryUnavailable as error:
            raise RegistryUnavailable(error.args[0], row) from error
    try:
        return pa.array(found, type_), reasons
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
        return _one_by_one(found, type_, reasons)


def _one_by_one(
    found: list[Any], type_: Any, reasons: dict[int, str]
) -> tuple[Any, dict[int, str]]:
    """The same where some value is not of the type."""
    for row, value in enumerate(found):
        try:
            pa.array([value], type_)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError) as error:
            reasons[row] = f"not `{type_}`: {str(error).partition(chr(10))[0]}"
            found[row] = None
    return pa.array(found, type_), reasons


@lru_cache
def _reader(format_: Format, definition: Definition) -> Callable[[bytes], Any]:
    read = _avro if format_ is Format.AVRO else _protobuf
    return read(definition)


def _avro(wanted: Definition) -> Callable[[bytes], Any]:
    reads = wanted.text, wanted.references
    if not wanted.registry:
        return avro.reader(*reads, *reads)

    def read(value: bytes) -> Any:
        number, rest = registry.split(value)
        written = _written(wanted.registry, number, "AVRO")
        return avro.reader(written.text, written.references, *reads)(rest)

    return read


def _protobuf(wanted: Definition) -> Callable[[bytes], Any]:
    if not wanted.registry:
        return protobuf.reader(wanted.text, wanted.message)

    def read(value: bytes) -> Any:
        number, rest = registry.split(value)
        written = _written(wanted.registry, number, "PROTOBUF")
        files = _descriptors(written)
        path, rest = protobuf.split_path(rest)
        message = protobuf.message_at(files, path)
        if message != wanted.message:
            raise ValueError(f"it is a message `{message}`, not a `{wanted.message}`")
        return protobuf.reader(files, message)(rest)

    return read


@lru_cache
def _descriptors(written: registry.Registered) -> str:
    return protobuf.descriptor_set(written.text, written.references)


def _written(url: str, number: int, kind: str) -> registry.Registered:
    try:
        found = registry.schema_by_id(url, number)
    except registry.UnknownSchema:
        raise _UnknownId(f"the registry has no schema {number}") from None
    if found.kind != kind:
        raise ValueError(f"schema {number} of the registry is of kind {found.kind}")
    return found

"""The schema that a user names: a file in the format's own notation, or the registry's newest."""

from pathlib import Path
from typing import Any

from tidelog.errors import UsageError
from tidelog.pipeline.typed import avro, protobuf
from tidelog.pipeline.typed.decoding import Definition
from tidelog.pipeline.typed.formats import Format
from tidelog.pipeline.typed.registry import UnknownSchema, newest_schema
from tidelog.pipeline.typed.schema_text import read_schema


def named_schema(
    format_: Format, path: Path | None, registry: str, subject: str
) -> tuple[Any, Definition | None]:
    """The Arrow type of keys or values, `None` where the table or a sample decides, and what their
    library needs. Raises `UsageError`, `RegistryUnavailable`."""
    if not format_.is_decoded:
        return (None if path is None else read_schema(path)), None
    if path is None and not registry:
        raise UsageError(
            f"values of format `{format_}` have no fields without their schema",
            "give `--value-schema FILE` (`--key-schema` for keys), or `--registry URL`",
        )
    try:
        if path is not None:
            return _from_file(format_, path, registry)
        return _from_registry(format_, registry, subject)
    except UsageError as error:
        raise UsageError(f"the schema `{path or subject}`: {error.message}", error.hint) from error


def _from_file(format_: Format, path: Path, registry: str) -> tuple[Any, Definition]:
    if format_ is Format.PROTOBUF:
        text, message = protobuf.read_descriptors(path)
        type_, name = protobuf.arrow_type(text, message)
        return type_, Definition(text, message=name, registry=registry)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"it cannot be read: {error}", "name an `.avsc` file") from error
    return avro.arrow_type(text), Definition(text, registry=registry)


def _from_registry(format_: Format, registry: str, subject: str) -> tuple[Any, Definition]:
    try:
        found = newest_schema(registry, subject)
    except UnknownSchema:
        raise UsageError(
            "the registry has no such subject",
            "give `--value-schema FILE` (`--key-schema` for keys) as the schema to read with, or "
            "the address of another registry",
        ) from None
    if found.kind != format_.upper():
        raise UsageError(
            f"it is of kind {found.kind}",
            f"give the format `{found.kind.lower()}`, not `{format_}`",
        )
    if format_ is Format.AVRO:
        type_ = avro.arrow_type(found.text, found.references)
        return type_, Definition(found.text, found.references, registry=registry)
    text = protobuf.descriptor_set(found.text, found.references)
    type_, name = protobuf.arrow_type(text, "")
    return type_, Definition(text, message=name, registry=registry)

"""Metadata records as JSON, in the form that Kafka's own dump tool gives them."""

from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from tidelog.metadata.records import decode_record
from tidelog.model import uuid_to_text
from tidelog.wire.notation import read_uvarint


def describe_record(value: bytes) -> dict[str, Any]:
    """`{"type", "version", "data"}` of the value of a metadata record.

    Raises `ProtocolError` for a value that is none.
    """
    entity = decode_record(value)
    # The frame: its own version, the record's kind, the version of the record's schema.
    _, position = read_uvarint(value, 0)
    _, position = read_uvarint(value, position)
    version, _ = read_uvarint(value, position)
    return {
        "type": _type_name(type(entity).__name__),
        "version": version,
        "data": _data(entity, version),
    }


def _data(entity: Any, version: int) -> dict[str, Any]:
    data = {}
    for field in fields(entity):
        value = getattr(entity, field.name)
        if field.metadata.get("since", 0) > version:
            continue
        default = None if field.default is MISSING else field.default
        # A tagged field with its default is not in the bytes, so it is not shown either.
        if "tag" in field.metadata and value == default:
            continue
        data[_camel(field.name)] = _plain(value, field.metadata.get("kafka_type"), version)
    return data


def _plain(value: Any, kafka_type: str | None, version: int) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(item, kafka_type, version) for item in value]
    if is_dataclass(value):
        return _data(value, version)
    if isinstance(value, bytes):
        return uuid_to_text(value) if kafka_type == "uuid_bytes" else value.hex()
    return value


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _type_name(class_name: str) -> str:
    words = "".join(f"_{c}" if c.isupper() else c.upper() for c in class_name)
    return words.lstrip("_")

"""The framing of metadata records: entities to values of the metadata log, and back.

A record of the metadata log has no key. Its value is a frame version (always 1), the number of the
record's kind, the version of its schema, then the body in the flexible encoding of KIP-482; the
three numbers are unsigned varints. Written are the versions that metadata.version 30 (Kafka 4.3)
writes: the newest one, except that a broker registration change takes the oldest that can express
it. So does a registration, from version 3 on: only cordoned directories need version 4, and Kafka
before 4.3 ends its process on a record that it cannot read.

Invariants:
- `encode_record(decode_record(value))` gives `value` back for every record that Kafka 4.3 writes,
  the version of a registration aside;
- decoding raises `MalformedFrame` or `ProtocolError` and nothing else, whatever the bytes.

Source: KIP-631 (the metadata log).
"""

from dataclasses import fields
from functools import lru_cache
from typing import Final

from tidelog.errors import ErrorCode, MalformedFrame, ProtocolError
from tidelog.metadata.records import (
    RECORD_TYPES,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    RegisterBrokerRecord,
)
from tidelog.wire.notation import read_uvarint, write_uvarint
from tidelog.wire.schema import read_entity, write_entity

FRAME_VERSION: Final = 1
_OLDEST_REGISTRATION: Final = 3
"""The version of Kafka 3.7 to 4.2."""

_LATER_FIELDS: Final[dict[type, list[tuple[str, int, object]]]] = {
    record_type: [
        (each.name, each.metadata["since"], each.default)
        for each in fields(record_type)
        if each.metadata.get("since", 0) > 0
    ]
    for record_type in RECORD_TYPES.values()
}
"""(name, first version, default) of the fields that not every version has."""


@lru_cache(maxsize=1 << 14)
def decode_record(value: bytes) -> MetadataRecord:
    """The entity in a record's value; entities are immutable, so the controller and the
    broker of one node, which decode the same bytes, share them.

    Raises `ProtocolError(UNSUPPORTED_VERSION)` for a kind or version from a newer Kafka, and
    `MalformedFrame` for anything else that is not a metadata record.
    """
    record_type, version, position = read_kind(value)
    entity, end = read_entity(record_type, value, position, version)
    if end != len(value):
        raise MalformedFrame(f"`{len(value) - end}` bytes behind a {record_type.__name__}")
    decoded: MetadataRecord = entity
    return decoded


def read_kind(value: bytes) -> tuple[type[MetadataRecord], int, int]:
    """The kind of a record's value, its version, and where the body begins. Raises as
    `decode_record` does, but for the body."""
    try:
        frame_version, position = read_uvarint(value, 0)
        record_id, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except IndexError as cause:
        raise MalformedFrame("a metadata record ends inside its frame") from cause
    if frame_version != FRAME_VERSION:
        raise MalformedFrame(f"metadata frame version `{frame_version}`")
    record_type = RECORD_TYPES.get(record_id)
    if record_type is None or version > record_type.__latest__:
        raise ProtocolError(
            ErrorCode.UNSUPPORTED_VERSION, f"metadata record `{record_id}` version `{version}`"
        )
    return record_type, version, position


def encode_record(entity: MetadataRecord, version: int | None = None) -> bytes:
    """The value of the record, in the version that Kafka 4.3 writes unless one is given."""
    written = _written_version(entity) if version is None else version
    assert _first_version_for(entity) <= written <= entity.__latest__, (
        f"{entity} does not fit into version {written}"
    )
    out = bytearray()
    write_uvarint(out, FRAME_VERSION)
    write_uvarint(out, entity.__record_id__)
    write_uvarint(out, written)
    write_entity(out, entity, written)
    return bytes(out)


def _written_version(entity: MetadataRecord) -> int:
    if isinstance(entity, BrokerRegistrationChangeRecord):
        return _first_version_for(entity)
    if isinstance(entity, RegisterBrokerRecord):
        return max(_OLDEST_REGISTRATION, _first_version_for(entity))
    return entity.__latest__


def _first_version_for(entity: MetadataRecord) -> int:
    """The oldest version that holds every field which is not at its default."""
    needed = 0
    for name, first, default in _LATER_FIELDS[type(entity)]:
        if first > needed and getattr(entity, name) != default:
            needed = first
    return needed

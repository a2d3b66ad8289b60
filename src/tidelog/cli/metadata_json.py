"""Metadata records and control records of the quorum as JSON, in the form of Kafka's dump tool."""

from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.schema.k_raft_version_record.v0.data import KRaftVersionRecord
from kio.schema.leader_change_message.v0.data import LeaderChangeMessage as LeaderChangeV0
from kio.schema.leader_change_message.v1.data import LeaderChangeMessage as LeaderChangeV1
from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0.data import SnapshotHeaderRecord
from kio.schema.voters_record.v0.data import VotersRecord

from tidelog.errors import CorruptBatch, MalformedFrame
from tidelog.metadata.record_codec import decode_record
from tidelog.model import uuid_to_text
from tidelog.records.control import ControlType
from tidelog.wire.notation import read_uvarint
from tidelog.wire.schema import read_entity
from tidelog.wire.values import bytes_of


class _Control(NamedTuple):
    """How one type of control records is shown."""

    label: str
    """As Kafka's dump tool writes it, in front of the JSON."""
    versions: tuple[Any, ...]
    """The entity class of each version."""


_CONTROLS: Final = {
    ControlType.LEADER_CHANGE: _Control("LeaderChange:", (LeaderChangeV0, LeaderChangeV1)),
    ControlType.SNAPSHOT_HEADER: _Control("SnapshotHeader", (SnapshotHeaderRecord,)),
    ControlType.SNAPSHOT_FOOTER: _Control("SnapshotFooter", (SnapshotFooterRecord,)),
    ControlType.KRAFT_VERSION: _Control("KRaftVersion", (KRaftVersionRecord,)),
    ControlType.KRAFT_VOTERS: _Control("KRaftVoters", (VotersRecord,)),
}


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


def describe_control(control_type: int, value: bytes) -> tuple[str, dict[str, Any]] | None:
    """(label, data) of a control record of the quorum; `None` for a type or version that is not
    known. Raises `CorruptBatch` for a value that is none."""
    control = _CONTROLS.get(control_type)  # type: ignore[call-overload]
    # Each of them begins with its version.
    version = int.from_bytes(value[:2], "big")
    if control is None or version >= len(control.versions):
        return None
    try:
        entity, end = read_entity(control.versions[version], value, 0)
    except MalformedFrame as error:
        raise CorruptBatch(f"unreadable {control.label} record: {error.message}") from None
    if end != len(value):
        raise CorruptBatch(f"{len(value) - end} bytes behind a {control.label} record")
    return control.label, _data(entity, version)


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
    if kafka_type == "uuid":
        identifier: UUID | None = value
        return uuid_to_text(bytes_of(identifier))
    if isinstance(value, bytes):
        return uuid_to_text(value) if kafka_type == "uuid_bytes" else value.hex()
    return value


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _type_name(class_name: str) -> str:
    separated = "".join(f"_{c}" if c.isupper() else c.upper() for c in class_name)
    return separated.lstrip("_")

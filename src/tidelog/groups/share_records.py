"""The records of share groups (KIP-932) in `__consumer_offsets`, in Kafka's formats.

| kind | key | value |
| --- | --- | --- |
| 10 | group, member | what the member is and wants |
| 11 | group | the group's epoch, and a hash of the topics it is subscribed to |
| 12 | group | the epoch of the target assignment |
| 13 | group, member | the target: what the member shall have |
| 14 | group, member | what the member has |
| 15 | group | how far the state of its share partitions is initialised or deleted |

Keys are in the classic notation, values in the flexible one, with version 0. Kinds 12 and 13 have
the values of kinds 6 and 7 (`consumer_records.py`).

Invariant: what `encode_value` makes of what `decode_record` returned is the same value.

Source: KIP-932, KIP-1263.
"""

from collections.abc import Mapping
from enum import IntEnum
from struct import Struct
from typing import Any, Final, NamedTuple

from tidelog.errors import MalformedFrame
from tidelog.groups import consumer_records
from tidelog.groups.consumer_records import GroupEpoch, Target, TargetEpoch
from tidelog.model import TopicId
from tidelog.wire.notation import CLASSIC, FLEXIBLE, UUID_BYTES

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_VERSION: Final = _INT16.pack(0)
_EPOCH: Final = Struct(">iq")
_CURRENT: Final = Struct(">iib")
_STABLE: Final = 0
"""The one state of members of share groups."""
_MIN_TOPIC_BYTES: Final = UUID_BYTES + 2
_MIN_TEXT_BYTES: Final = 1


class ShareMember(NamedTuple):
    """Kind 10: a member, and what it asks for."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    """Sorted."""


class ShareCurrent(NamedTuple):
    """Kind 14: what a member has."""

    epoch: int = 0
    previous_epoch: int = 0
    """The epoch before; a member may not have received the newest one yet."""
    assigned: Target = ()


class TopicPartitions(NamedTuple):
    """Partitions of one topic."""

    name: str
    partitions: frozenset[int]


States = Mapping[TopicId, TopicPartitions]


class ShareStates(NamedTuple):
    """Kind 15: for which partitions the share coordinators have a state; never changed."""

    initializing: States = {}
    """Asked for, and not answered yet."""
    initialized: States = {}
    """Only these are assigned to members."""
    deleting: Mapping[TopicId, str] = {}
    """Names of topics whose states are being deleted."""


ShareValue = ShareMember | GroupEpoch | TargetEpoch | Target | ShareCurrent | ShareStates


class ShareKind(IntEnum):
    """The number that a key begins with."""

    MEMBER = 10
    EPOCH = 11
    TARGET_EPOCH = 12
    TARGET = 13
    CURRENT = 14
    STATES = 15


SHARE_KINDS: Final = frozenset(ShareKind)
_OF_MEMBERS: Final = (ShareKind.MEMBER, ShareKind.TARGET, ShareKind.CURRENT)


class ShareGroupRecord(NamedTuple):
    """Something of a share group has changed, or with `None` is gone."""

    kind: ShareKind
    group_id: str
    member_id: str
    """Empty where the key has the group alone."""
    value: ShareValue | None


def encode_key(record: ShareGroupRecord) -> bytes:
    """The key of a record."""
    out = bytearray(_INT16.pack(record.kind))
    CLASSIC.write_text(out, record.group_id)
    if record.kind in _OF_MEMBERS:
        CLASSIC.write_text(out, record.member_id)
    return bytes(out)


def decode_record(kind: int, key: bytes, value: bytes | None) -> ShareGroupRecord:
    """The record of a key and a value. Raises `MalformedFrame`, and what is in `MALFORMED`."""
    known = ShareKind(kind)
    group_id, position = CLASSIC.read_text(key, 2)
    member_id = CLASSIC.read_text(key, position)[0] if known in _OF_MEMBERS else ""
    decoded = None if value is None else _decode_value(known, value)
    return ShareGroupRecord(known, group_id, member_id, decoded)


def encode_value(kind: ShareKind, value: ShareValue | None) -> bytes | None:
    """A value in its newest version."""
    out = bytearray(_VERSION)
    match value:
        case None:
            return None
        case ShareMember(rack_id, client_id, client_host, topic_names):
            for text in (rack_id, client_id, client_host):
                FLEXIBLE.write_text(out, text)
            FLEXIBLE.write_length(out, len(topic_names))
            for text in topic_names:
                FLEXIBLE.write_text(out, text)
            FLEXIBLE.write_no_tags(out)
        case GroupEpoch(epoch, metadata_hash):
            out += _EPOCH.pack(epoch, metadata_hash)
            FLEXIBLE.write_no_tags(out)
        case ShareCurrent(epoch, previous_epoch, assigned):
            out += _CURRENT.pack(epoch, previous_epoch, _STABLE) + _packed(assigned)
        case ShareStates(initializing, initialized, deleting):
            for states in (initializing, initialized):
                _write_states(out, states)
            FLEXIBLE.write_length(out, len(deleting))
            for topic_id, name in sorted(deleting.items()):
                out += topic_id
                FLEXIBLE.write_text(out, name)
                FLEXIBLE.write_no_tags(out)
            FLEXIBLE.write_no_tags(out)
        case _:
            assert kind in (ShareKind.TARGET_EPOCH, ShareKind.TARGET), f"{value} as {kind}"
            return consumer_records.encode_value(value)
    return bytes(out)


def _packed(target: Target) -> bytes:
    """Partitions, and the end of the structure behind them."""
    encoded = consumer_records.encode_value(target)
    assert encoded is not None, "a target is a value"
    return encoded[len(_VERSION) :]


def _write_states(out: bytearray, states: States) -> None:
    FLEXIBLE.write_length(out, len(states))
    for topic_id, (name, partitions) in sorted(states.items()):
        out += topic_id
        FLEXIBLE.write_text(out, name)
        FLEXIBLE.write_length(out, len(partitions))
        for number in sorted(partitions):
            out += _INT32.pack(number)
        FLEXIBLE.write_no_tags(out)


def _decode_value(kind: ShareKind, value: bytes) -> Any:
    version = _INT16.unpack_from(value)[0]
    if version != 0:
        raise MalformedFrame(f"version `{version}` of a value of kind {kind.value}")
    position = len(_VERSION)
    match kind:
        case ShareKind.MEMBER:
            return _read_member(value, position)
        case ShareKind.EPOCH:
            FLEXIBLE.skip_tags(value, position + _EPOCH.size)
            return GroupEpoch(*_EPOCH.unpack_from(value, position))
        case ShareKind.CURRENT:
            epoch, previous_epoch, _ = _CURRENT.unpack_from(value, position)
            packed = _VERSION + value[position + _CURRENT.size :]
            assigned = consumer_records.decode_value(consumer_records.Kind.TARGET, packed)
            return ShareCurrent(epoch, previous_epoch, assigned)  # type: ignore[arg-type]
        case ShareKind.STATES:
            return _read_all_states(value, position)
        case ShareKind.TARGET:
            return consumer_records.decode_value(consumer_records.Kind.TARGET, value)
    return consumer_records.decode_value(consumer_records.Kind.TARGET_EPOCH, value)


def _read_member(value: bytes, position: int) -> ShareMember:
    rack_id, position = FLEXIBLE.read_nullable_text(value, position)
    client_id, position = FLEXIBLE.read_text(value, position)
    client_host, position = FLEXIBLE.read_text(value, position)
    count, position = FLEXIBLE.read_count(value, position, _MIN_TEXT_BYTES)
    names = []
    for _ in range(count):
        name, position = FLEXIBLE.read_text(value, position)
        names.append(name)
    FLEXIBLE.skip_tags(value, position)
    return ShareMember(rack_id, client_id, client_host, tuple(names))


def _read_all_states(value: bytes, position: int) -> ShareStates:
    initializing, position = _read_states(value, position)
    initialized, position = _read_states(value, position)
    count, position = FLEXIBLE.read_count(value, position, _MIN_TOPIC_BYTES)
    deleting = {}
    for _ in range(count):
        topic_id = TopicId(bytes(value[position : position + UUID_BYTES]))
        deleting[topic_id], position = FLEXIBLE.read_text(value, position + UUID_BYTES)
        position = FLEXIBLE.skip_tags(value, position)
    FLEXIBLE.skip_tags(value, position)
    return ShareStates(initializing, initialized, deleting)


def _read_states(value: bytes, position: int) -> tuple[States, int]:
    count, position = FLEXIBLE.read_count(value, position, _MIN_TOPIC_BYTES)
    found = {}
    for _ in range(count):
        topic_id = TopicId(bytes(value[position : position + UUID_BYTES]))
        name, position = FLEXIBLE.read_text(value, position + UUID_BYTES)
        size, position = FLEXIBLE.read_count(value, position, _INT32.size)
        end = position + size * _INT32.size
        numbers = {_INT32.unpack_from(value, at)[0] for at in range(position, end, _INT32.size)}
        found[topic_id] = TopicPartitions(name, frozenset(numbers))
        position = FLEXIBLE.skip_tags(value, end)
    return found, position

"""The records of `__consumer_offsets`: keys and values, in Kafka's formats.

A key begins with the number of its kind, a value with the version of its schema; both are 16-bit
integers. A record without a value (a tombstone) removes what its key names.

| kind | key | value | written |
| --- | --- | --- | --- |
| 0, 1 | group, topic, partition | what was committed | version 4; 1 with an expiry of its own |
| 2 | group | the classic group after its last change | version 3 |
| 3 to 8, 16 | a consumer group | `consumer_records.py` | version 0 |
| 10 to 15 | a share group | `share_records.py` | version 0 |

Keys are in the classic notation; values are flexible (KIP-482) from version 4 on. Other kinds
(streams groups) are kept as bytes: a log that another broker wrote must load.

Invariant: what `encode` makes of what `decode` returned is the same record, for those that Kafka
4.3 writes.

Source: KIP-211 (expiry), KIP-345 (static members), KIP-482; Kafka's `OffsetCommitValue` and
`GroupMetadataValue`.
"""

from struct import Struct
from typing import Any, Final, NamedTuple

from tidelog.errors import MalformedFrame
from tidelog.groups import share_records
from tidelog.groups.consumer_records import (
    KINDS,
    ConsumerRecord,
    decode_record,
    encode_key,
    encode_value,
)
from tidelog.groups.share_records import SHARE_KINDS, ShareGroupRecord
from tidelog.model import NO_EPOCH, NO_TIMESTAMP, ZERO_TOPIC_ID, TopicId, TopicPartition
from tidelog.rsm.log_records import RawRecord
from tidelog.wire.notation import CLASSIC, FLEXIBLE, MALFORMED, Notation, read_tags, write_tags

_KIND: Final = Struct(">h")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_OFFSET_KINDS: Final = (0, 1)
_OFFSET_KIND: Final = 1
_GROUP_KIND: Final = 2
_FIRST_FLEXIBLE: Final = 4
_NEWEST: Final = 4
_OFFSET_VERSION: Final = 4
_VERSION_WITH_EXPIRY: Final = 1
_GROUP_VERSION: Final = 3
_MIN_MEMBER_BYTES: Final = 20
_TOPIC_ID_TAG: Final = 0


class CommittedOffset(NamedTuple):
    """Up to where a group has read a partition."""

    offset: int
    """The next offset to read."""
    leader_epoch: int = NO_EPOCH
    """Of the last record that was read, where the client knew it."""
    metadata: str = ""
    """A text that the client committed beside it."""
    commit_timestamp_ms: int = NO_TIMESTAMP
    """Wall time of the commit."""
    expire_timestamp_ms: int = NO_TIMESTAMP
    """When it expires, if the client asked for a time of its own (OffsetCommit 2 to 4)."""
    topic_id: TopicId = ZERO_TOPIC_ID
    """The topic that had the name at the time of the commit."""


class OffsetRecord(NamedTuple):
    """An offset is committed, or with `None` forgotten."""

    group_id: str
    topic_partition: TopicPartition
    value: CommittedOffset | None


class MemberValue(NamedTuple):
    """A member of a stable group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """What it said about itself for the chosen protocol."""
    assignment: bytes
    """What the leader of the group gave it."""


class GroupValue(NamedTuple):
    """A classic group as a new coordinator takes it over."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    state_timestamp_ms: int
    """Wall time of its last change; for one without members since when it has none."""
    members: tuple[MemberValue, ...]


class GroupRecord(NamedTuple):
    """A group has changed, or with `None` is gone."""

    group_id: str
    value: GroupValue | None


class OtherRecord(NamedTuple):
    """A kind that this coordinator does not know."""

    raw: RawRecord


GroupsRecord = OffsetRecord | GroupRecord | ConsumerRecord | ShareGroupRecord | OtherRecord


def encode(record: GroupsRecord) -> RawRecord:
    """Key and value of a record."""
    key = bytearray()
    match record:
        case OffsetRecord(group_id, topic_partition, value):
            key += _KIND.pack(_OFFSET_KIND)
            CLASSIC.write_text(key, group_id)
            CLASSIC.write_text(key, topic_partition.topic)
            key += _INT32.pack(topic_partition.partition)
            return bytes(key), None if value is None else _encode_offset(value)
        case GroupRecord(group_id, group):
            key += _KIND.pack(_GROUP_KIND)
            CLASSIC.write_text(key, group_id)
            return bytes(key), None if group is None else _encode_group(group)
        case ConsumerRecord():
            return encode_key(record), encode_value(record.value)
        case ShareGroupRecord(kind=kind, value=share_value):
            return share_records.encode_key(record), share_records.encode_value(kind, share_value)
        case OtherRecord(raw):
            return raw


def decode(raw: RawRecord) -> GroupsRecord:
    """The record of a key and a value. Raises `MalformedFrame`."""
    key, value = raw
    try:
        kind = _KIND.unpack_from(key)[0]
        if kind in _OFFSET_KINDS:
            group_id, position = CLASSIC.read_text(key, 2)
            topic, position = CLASSIC.read_text(key, position)
            partition = TopicPartition(topic, _INT32.unpack_from(key, position)[0])
            return OffsetRecord(
                group_id, partition, None if value is None else _decode_offset(value)
            )
        if kind == _GROUP_KIND:
            group_id, _ = CLASSIC.read_text(key, 2)
            return GroupRecord(group_id, None if value is None else _decode_group(value))
        if kind in KINDS:
            return decode_record(kind, key, value)
        if kind in SHARE_KINDS:
            return share_records.decode_record(kind, key, value)
    except MALFORMED as cause:
        raise MalformedFrame(f"no record of a group: {cause}") from cause
    return OtherRecord(raw)


# Offsets -----------------------------------------------------------------------------------


def _encode_offset(value: CommittedOffset) -> bytes:
    has_expiry = value.expire_timestamp_ms != NO_TIMESTAMP
    version = _VERSION_WITH_EXPIRY if has_expiry else _OFFSET_VERSION
    out = bytearray(_KIND.pack(version))
    out += _INT64.pack(value.offset)
    if has_expiry:
        CLASSIC.write_text(out, value.metadata)
        out += _INT64.pack(value.commit_timestamp_ms)
        out += _INT64.pack(value.expire_timestamp_ms)
        return bytes(out)
    out += _INT32.pack(value.leader_epoch)
    FLEXIBLE.write_text(out, value.metadata)
    out += _INT64.pack(value.commit_timestamp_ms)
    known = value.topic_id != ZERO_TOPIC_ID
    write_tags(out, [(_TOPIC_ID_TAG, value.topic_id)] if known else [])
    return bytes(out)


def _decode_offset(value: bytes) -> CommittedOffset:
    version, notation = _version_of(value)
    offset, position = _INT64.unpack_from(value, 2)[0], 10
    leader_epoch = NO_EPOCH
    if version >= 3:
        leader_epoch = _INT32.unpack_from(value, position)[0]
        position += 4
    metadata, position = notation.read_text(value, position)
    commit_timestamp_ms = _INT64.unpack_from(value, position)[0]
    position += 8
    expire_timestamp_ms, topic_id = NO_TIMESTAMP, ZERO_TOPIC_ID
    if version == _VERSION_WITH_EXPIRY:
        expire_timestamp_ms = _INT64.unpack_from(value, position)[0]
    if notation.flexible:
        for tag, start, end in read_tags(value, position)[0]:
            if tag == _TOPIC_ID_TAG:
                topic_id = TopicId(bytes(value[start:end]))
    return CommittedOffset(
        offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id
    )


# Groups ------------------------------------------------------------------------------------


def _encode_group(value: GroupValue) -> bytes:
    out = bytearray(_KIND.pack(_GROUP_VERSION))
    CLASSIC.write_text(out, value.protocol_type)
    out += _INT32.pack(value.generation_id)
    CLASSIC.write_text(out, value.protocol_name)
    CLASSIC.write_text(out, value.leader_id)
    out += _INT64.pack(value.state_timestamp_ms)
    CLASSIC.write_length(out, len(value.members))
    for member in value.members:
        CLASSIC.write_text(out, member.member_id)
        CLASSIC.write_text(out, member.group_instance_id)
        CLASSIC.write_text(out, member.client_id)
        CLASSIC.write_text(out, member.client_host)
        out += _INT32.pack(member.rebalance_timeout_ms)
        out += _INT32.pack(member.session_timeout_ms)
        for blob in (member.subscription, member.assignment):
            CLASSIC.write_length(out, len(blob))
            out += blob
    return bytes(out)


def _decode_group(value: bytes) -> GroupValue:
    version, notation = _version_of(value)
    protocol_type, position = notation.read_text(value, 2)
    generation_id = _INT32.unpack_from(value, position)[0]
    protocol_name, position = notation.read_nullable_text(value, position + 4)
    leader_id, position = notation.read_nullable_text(value, position)
    state_timestamp_ms = NO_TIMESTAMP
    if version >= 2:
        state_timestamp_ms = _INT64.unpack_from(value, position)[0]
        position += 8
    count, position = notation.read_count(value, position, _MIN_MEMBER_BYTES)
    members = []
    for _ in range(count):
        member, position = _decode_member(version, notation, value, position)
        members.append(member)
    return GroupValue(
        protocol_type, generation_id, protocol_name, leader_id, state_timestamp_ms, tuple(members)
    )


def _decode_member(
    version: int, notation: Notation, value: Any, position: int
) -> tuple[MemberValue, int]:
    member_id, position = notation.read_text(value, position)
    group_instance_id = None
    if version >= 3:
        group_instance_id, position = notation.read_nullable_text(value, position)
    client_id, position = notation.read_text(value, position)
    client_host, position = notation.read_text(value, position)
    timeouts = []
    for _ in range(1 if version == 0 else 2):
        timeouts.append(_INT32.unpack_from(value, position)[0])
        position += 4
    subscription, position = notation.read_blob(value, position)
    assignment, position = notation.read_blob(value, position)
    position = notation.skip_tags(value, position)
    return MemberValue(
        member_id,
        group_instance_id,
        client_id,
        client_host,
        timeouts[0],
        timeouts[-1],
        bytes(subscription or b""),
        bytes(assignment or b""),
    ), position


def _version_of(value: bytes) -> tuple[int, Notation]:
    version: int = _KIND.unpack_from(value)[0]
    if not 0 <= version <= _NEWEST:
        raise MalformedFrame(f"version `{version}` of a value of `__consumer_offsets`")
    return version, FLEXIBLE if version >= _FIRST_FLEXIBLE else CLASSIC

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

from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

from tidelog.errors import MalformedFrame
from tidelog.groups.consumer_records import LAYOUTS, OF_GROUPS, ConsumerRecord, Kind
from tidelog.groups.share_records import OF_SHARE_GROUPS, SHARE_LAYOUTS, ShareGroupRecord, ShareKind
from tidelog.model import NO_EPOCH, NO_TIMESTAMP, ZERO_TOPIC_ID, TopicId, TopicPartition
from tidelog.rsm.log_records import RawRecord
from tidelog.wire.layouts import (
    CLASSIC,
    FLEXIBLE,
    INT16,
    INT32,
    INT64,
    UUID,
    Tag,
    absent,
    read_version,
    written,
)
from tidelog.wire.notation import MALFORMED, NO_TAGS, UUID_BYTES
from tidelog.wire.primitives import Codec

_OFFSET_KEYS: Final = (b"\x00\x01", b"\x00\x00")
"""How keys of offsets begin."""
_OFFSET_KIND: Final = 1
_GROUP_KIND: Final = 2
_FIRST_FLEXIBLE: Final = 4
_OFFSET_WITH_EXPIRY: Final = 1
_NEWEST_OFFSET: Final = 4
_GROUP_VERSION: Final = 3
"""In which groups are written."""
_ONLY_VERSION: Final = 0
"""Of the values of consumer groups and share groups."""
_LAYOUTS: Final = {**LAYOUTS, **SHARE_LAYOUTS}


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


# The layouts of values -----------------------------------------------------------------------


def _layout_of_offsets(version: int) -> Codec:
    forms = FLEXIBLE if version >= _FIRST_FLEXIBLE else CLASSIC
    return forms.layout(
        CommittedOffset._make,
        INT64,
        INT32 if version >= 3 else absent(NO_EPOCH),
        forms.text,
        INT64,
        INT64 if version == _OFFSET_WITH_EXPIRY else absent(NO_TIMESTAMP),
        tags=[Tag(UUID, ZERO_TOPIC_ID)],
    )


def _oldest_member(elements: list[Any]) -> MemberValue:
    """Version 0 has one timeout for both."""
    member = MemberValue._make(elements)
    return member._replace(rebalance_timeout_ms=member.session_timeout_ms)


def _layout_of_groups(version: int) -> Codec:
    forms = FLEXIBLE if version >= _FIRST_FLEXIBLE else CLASSIC
    member = forms.layout(
        MemberValue._make if version >= 1 else _oldest_member,
        forms.text,
        forms.nullable_text if version >= 3 else absent(None),
        forms.text,
        forms.text,
        INT32 if version >= 1 else absent(-1),
        INT32,
        forms.blob,
        forms.blob,
    )
    return forms.layout(
        GroupValue._make,
        forms.text,
        INT32,
        forms.nullable_text,
        forms.nullable_text,
        INT64 if version >= 2 else absent(NO_TIMESTAMP),
        forms.array(member),
    )


_OFFSETS: Final = {version: _layout_of_offsets(version) for version in range(5)}
_GROUPS: Final = {version: _layout_of_groups(version) for version in range(5)}
_OFFSET_KEY: Final = CLASSIC.layout(tuple, CLASSIC.text, CLASSIC.text, INT32)
_PLAIN_OFFSET: Final = Struct(">hqiBqB")
"""An offset in the newest version with an empty text and without tagged fields."""
_IDENTIFIED_OFFSET: Final = Struct(">hqiBq3s16s")
"""The same with the topic's id, which is the only tagged field; most are one of the two."""
_ID_TAG: Final = bytes((1, 0, UUID_BYTES))
"""How many tagged fields there are, the number of this one, and its length."""
_EMPTY_TEXT: Final = 1
_tuple: Final = tuple.__new__
"""Makes a named tuple in a third of the time that its class takes, where millions are made."""
_NAMES: Final = CLASSIC.layout(tuple, CLASSIC.text, CLASSIC.text)
_KIND_BYTES: Final = 2
_NUMBER: Final = Struct(">i")
_GROUP_KEY: Final = CLASSIC.layout(tuple, CLASSIC.text)
_MEMBER_KEY: Final = CLASSIC.layout(tuple, CLASSIC.text, CLASSIC.text)


def encode(record: GroupsRecord) -> RawRecord:
    """Key and value of a record."""
    match record:
        case OffsetRecord(group_id, topic_partition, offset):
            key = written(_OFFSET_KEY, (group_id, *topic_partition), _OFFSET_KIND)
            if offset is None:
                return key, None
            has_expiry = offset.expire_timestamp_ms != NO_TIMESTAMP
            version = _OFFSET_WITH_EXPIRY if has_expiry else _NEWEST_OFFSET
            return key, written(_OFFSETS[version], offset, version)
        case GroupRecord(group_id, group):
            key = written(_GROUP_KEY, (group_id,), _GROUP_KIND)
            if group is None:
                return key, None
            return key, written(_GROUPS[_GROUP_VERSION], group, _GROUP_VERSION)
        case ConsumerRecord(kind, group_id, name, value) | ShareGroupRecord(
            kind, group_id, name, value
        ):
            key = written(_key_of(kind), (group_id, name), kind)
            return key, None if value is None else written(_LAYOUTS[kind], value, _ONLY_VERSION)
        case OtherRecord(raw):
            return raw


def decode(raw: RawRecord) -> GroupsRecord:
    """The record of a key and a value. Raises `MalformedFrame`."""
    key, value = raw
    try:
        names = _names_before_number(key[: -_NUMBER.size])
        if names is not None:
            group_id, topic = names
            place = _tuple(TopicPartition, (topic, *_NUMBER.unpack(key[-_NUMBER.size :])))
            return _tuple(OffsetRecord, (group_id, place, _read_offset(value)))
        if key[:_KIND_BYTES] in _OFFSET_KEYS:
            (group_id, *partition), _ = _OFFSET_KEY.read(key, _KIND_BYTES)
            return OffsetRecord(group_id, TopicPartition(*partition), _read_offset(value))
        kind, position = INT16.read(key, 0)
        if kind == _GROUP_KIND:
            (group_id,), _ = _GROUP_KEY.read(key, position)
            group = None if value is None else read_version("a group", _GROUPS, value)
            return GroupRecord(group_id, group)
        if kind in _LAYOUTS:
            (group_id, *names), _ = _key_of(kind).read(key, position)
            name = names[0] if names else ""
            layouts = {_ONLY_VERSION: _LAYOUTS[kind]}
            found = None if value is None else read_version(f"kind {kind}", layouts, value)
            if kind in LAYOUTS:
                return ConsumerRecord(Kind(kind), group_id, name, found)
            return ShareGroupRecord(ShareKind(kind), group_id, name, found)
    except MALFORMED as cause:
        raise MalformedFrame(f"no record of a group: {cause}") from cause
    return OtherRecord(raw)


@lru_cache(maxsize=1024)
def _names_before_number(key: bytes) -> tuple[str, str] | None:
    """Group and topic of the key of an offset without its last field; `None` for another key, or
    where they do not end with it. A new coordinator reads millions of keys, and those of a group
    are mostly of few topics."""
    if key[:_KIND_BYTES] not in _OFFSET_KEYS:
        return None
    (group_id, topic), end = _NAMES.read(key, _KIND_BYTES)
    return (group_id, topic) if end == len(key) else None


def _read_offset(value: bytes | None) -> CommittedOffset | None:
    if value is None:
        return None
    if len(value) == _IDENTIFIED_OFFSET.size:
        version, offset, epoch, text, at_ms, tag, topic_id = _IDENTIFIED_OFFSET.unpack(value)
        if version == _NEWEST_OFFSET and text == _EMPTY_TEXT and tag == _ID_TAG:
            fields = (offset, epoch, "", at_ms, NO_TIMESTAMP, topic_id)
            return _tuple(CommittedOffset, fields)
    elif len(value) == _PLAIN_OFFSET.size:
        version, offset, epoch, text, at_ms, tags = _PLAIN_OFFSET.unpack(value)
        if version == _NEWEST_OFFSET and text == _EMPTY_TEXT and tags == NO_TAGS:
            return CommittedOffset(offset, epoch, "", at_ms)
    found: CommittedOffset = read_version("an offset", _OFFSETS, value)
    return found


def _key_of(kind: int) -> Codec:
    has_name = kind not in OF_GROUPS and kind not in OF_SHARE_GROUPS
    return _MEMBER_KEY if has_name else _GROUP_KEY

"""The records of consumer groups (KIP-848) in `__consumer_offsets`, in Kafka's formats.

| kind | key | value |
| --- | --- | --- |
| 3 | group | the group's epoch, and a hash of the topics it is subscribed to |
| 5 | group, member | what the member is and wants |
| 6 | group | the epoch of the target assignment |
| 7 | group, member | the target: what the member shall have |
| 8 | group, member | what the member has, and what it still has to give back |
| 16 | group, regular expression | the topics that it matches |

Kind 4 is what brokers before 4.1 wrote in place of the hash; it is passed over. Keys are in the
classic notation, values in the flexible one, with version 0.

Invariant: what `encode_value` makes of what `decode_value` returned is the same value.

Source: KIP-848, KIP-1101 (hash), KIP-1251 (epochs of assignments).
"""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from itertools import groupby
from struct import Struct
from typing import Any, Final, NamedTuple

from tidelog.errors import MalformedFrame
from tidelog.model import NO_TIMESTAMP, TopicId
from tidelog.wire.notation import CLASSIC, FLEXIBLE, UUID_BYTES, read_tags, write_tags

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_MIN_TEXT_BYTES: Final = 1
_MIN_TOPIC_BYTES: Final = 18
_ONLY_TAG: Final = 0
"""Each value and structure has at most one tagged field."""
_NULL: Final = b"\x00"
_NOT_NULL: Final = b"\x01"
"""What a structure that may be null begins with."""
_MIN_PROTOCOL_BYTES: Final = 3


class IdPartition(NamedTuple):
    """A partition, by the id of its topic."""

    topic_id: TopicId
    partition: int


Owned = Mapping[IdPartition, int]
"""Partitions with the epoch in which the member got each of them; never changed."""


class MemberState(IntEnum):
    """Where a member is on its way from what it has to its target."""

    STABLE = 0
    """It has all of its target."""
    UNREVOKED = 1
    """It has to give partitions back first."""
    UNRELEASED = 2
    """It waits for partitions that others have to give back."""
    UNKNOWN = 127
    """A state of another version of the software."""


class GroupEpoch(NamedTuple):
    """Kind 3: what the target assignment is made for."""

    epoch: int
    """Grows when members, subscriptions or topics change."""
    metadata_hash: int = 0
    """Of the topics of the group."""


class ClassicMember(NamedTuple):
    """What is written of a member that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Names and what the member says for each, the preferred one first."""


class Subscription(NamedTuple):
    """Kind 5: a member, and what it asks for."""

    instance_id: str | None = None
    """Of a static member."""
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    """Sorted."""
    regex: str | None = None
    """Topics by a regular expression; empty or `None`: none."""
    rebalance_timeout_ms: int = -1
    """How long it may take to give partitions back."""
    assignor: str | None = None
    """The server's assignor that it prefers."""
    classic: ClassicMember | None = None
    """Of a member that speaks the classic protocol."""


class TargetEpoch(NamedTuple):
    """Kind 6: the group epoch that the target assignment was made for."""

    epoch: int
    timestamp_ms: int = NO_TIMESTAMP


class Current(NamedTuple):
    """Kind 8: what a member has."""

    epoch: int = 0
    previous_epoch: int = 0
    """The epoch before; a member may not have received the newest one yet."""
    state: MemberState = MemberState.STABLE
    assigned: Owned = {}
    """What it may use."""
    revoking: Owned = {}
    """What it has to give back; until it has, no other member gets it."""


class ResolvedRegex(NamedTuple):
    """Kind 16: the topics that a regular expression matches."""

    topics: tuple[str, ...]
    """Sorted."""
    version: int = 0
    """The offset of the metadata that was looked at."""
    timestamp_ms: int = NO_TIMESTAMP


Target = tuple[IdPartition, ...]
"""Kind 7: what a member shall have."""

Value = GroupEpoch | Subscription | TargetEpoch | Target | Current | ResolvedRegex


class Kind(IntEnum):
    """The number that a key begins with."""

    EPOCH = 3
    SUBSCRIPTION = 5
    TARGET_EPOCH = 6
    TARGET = 7
    CURRENT = 8
    REGEX = 16


KINDS: Final = frozenset(Kind)
_OF_GROUPS: Final = (Kind.EPOCH, Kind.TARGET_EPOCH)


class ConsumerRecord(NamedTuple):
    """Something of a consumer group has changed, or with `None` is gone."""

    kind: Kind
    group_id: str
    name: str
    """The member, or the regular expression; empty where the key has the group alone."""
    value: Value | None


def encode_key(record: ConsumerRecord) -> bytes:
    """The key of a record."""
    out = bytearray(_INT16.pack(record.kind))
    CLASSIC.write_text(out, record.group_id)
    if record.kind not in _OF_GROUPS:
        CLASSIC.write_text(out, record.name)
    return bytes(out)


def decode_record(kind: int, key: bytes, value: bytes | None) -> ConsumerRecord:
    """The record of a key and a value. Raises `MalformedFrame`, and what is in `MALFORMED`."""
    group_id, position = CLASSIC.read_text(key, 2)
    name = ""
    if kind not in _OF_GROUPS:
        name, _ = CLASSIC.read_text(key, position)
    known = Kind(kind)
    return ConsumerRecord(known, group_id, name, decode_value(known, value))


def encode_value(value: Value | None) -> bytes | None:
    """A value in its newest version."""
    if value is None:
        return None
    out = bytearray(_INT16.pack(0))
    match value:
        case GroupEpoch(epoch, metadata_hash):
            out += _INT32.pack(epoch)
            _write_tag(out, _INT64.pack(metadata_hash) if metadata_hash else None)
        case Subscription():
            _write_subscription(out, value)
        case TargetEpoch(epoch, timestamp_ms):
            out += _INT32.pack(epoch)
            known = timestamp_ms != NO_TIMESTAMP
            _write_tag(out, _INT64.pack(timestamp_ms) if known else None)
        case Current(epoch, previous_epoch, state, assigned, revoking):
            out += _INT32.pack(epoch) + _INT32.pack(previous_epoch) + state.to_bytes(1, "big")
            _write_topics(out, assigned, assigned)
            _write_topics(out, revoking, revoking)
            FLEXIBLE.write_no_tags(out)
        case ResolvedRegex(topics, version, timestamp_ms):
            _write_texts(out, topics)
            out += _INT64.pack(version) + _INT64.pack(timestamp_ms)
            FLEXIBLE.write_no_tags(out)
        case _:
            _write_topics(out, value)
            FLEXIBLE.write_no_tags(out)
    return bytes(out)


def decode_value(kind: Kind, value: bytes | None) -> Value | None:
    """The inverse of `encode_value`."""
    if value is None:
        return None
    version = _INT16.unpack_from(value)[0]
    if version != 0:
        raise MalformedFrame(f"version `{version}` of a value of kind {kind.value}")
    return _READERS[kind](value)


# Parts -------------------------------------------------------------------------------------


def _write_tag(out: bytearray, encoded: bytes | None) -> None:
    write_tags(out, [] if encoded is None else [(_ONLY_TAG, encoded)])


def _read_tag(value: Any, position: int) -> tuple[bytes | None, int]:
    tags, position = read_tags(value, position)
    found = [bytes(value[start:end]) for tag, start, end in tags if tag == _ONLY_TAG]
    return (found[0] if found else None), position


def _write_texts(out: bytearray, texts: Iterable[str]) -> None:
    each_text = tuple(texts)
    FLEXIBLE.write_length(out, len(each_text))
    for text in each_text:
        FLEXIBLE.write_text(out, text)


def _read_texts(value: Any, position: int) -> tuple[tuple[str, ...], int]:
    count, position = FLEXIBLE.read_count(value, position, _MIN_TEXT_BYTES)
    texts = []
    for _ in range(count):
        text, position = FLEXIBLE.read_text(value, position)
        texts.append(text)
    return tuple(texts), position


def _write_numbers(out: bytearray, numbers: Iterable[int]) -> None:
    every = tuple(numbers)
    FLEXIBLE.write_length(out, len(every))
    for number in every:
        out += _INT32.pack(number)


def _read_numbers(value: Any, position: int) -> tuple[tuple[int, ...], int]:
    count, position = FLEXIBLE.read_count(value, position, _INT32.size)
    end = position + count * _INT32.size
    return tuple(_INT32.unpack_from(value, at)[0] for at in range(position, end, _INT32.size)), end


def _write_topics(
    out: bytearray, partitions: Iterable[IdPartition], epochs: Owned | None = None
) -> None:
    """Partitions, those of a topic one after the other; with `epochs` the epoch of each as a tagged
    field."""
    topics = [(topic_id, list(rows)) for topic_id, rows in groupby(partitions, lambda it: it[0])]
    FLEXIBLE.write_length(out, len(topics))
    for topic_id, rows in topics:
        out += topic_id
        _write_numbers(out, (row.partition for row in rows))
        tagged = bytearray()
        if epochs is not None:
            _write_numbers(tagged, (epochs[row] for row in rows))
        _write_tag(out, bytes(tagged) if tagged else None)


def _read_topics(value: Any, position: int) -> tuple[dict[IdPartition, int | None], int]:
    """Partitions with their epochs where there are some."""
    count, position = FLEXIBLE.read_count(value, position, _MIN_TOPIC_BYTES)
    found: dict[IdPartition, int | None] = {}
    for _ in range(count):
        topic_id = TopicId(bytes(value[position : position + UUID_BYTES]))
        numbers, position = _read_numbers(value, position + UUID_BYTES)
        tagged, position = _read_tag(value, position)
        epochs: tuple[int | None, ...] = (None,) * len(numbers)
        if tagged is not None:
            epochs, _ = _read_numbers(tagged, 0)
        for number, epoch in zip(numbers, epochs, strict=False):
            found[IdPartition(topic_id, number)] = epoch
    return found, position


def _write_subscription(out: bytearray, value: Subscription) -> None:
    FLEXIBLE.write_text(out, value.instance_id)
    FLEXIBLE.write_text(out, value.rack_id)
    FLEXIBLE.write_text(out, value.client_id)
    FLEXIBLE.write_text(out, value.client_host)
    _write_texts(out, value.topic_names)
    FLEXIBLE.write_text(out, value.regex)
    out += _INT32.pack(value.rebalance_timeout_ms)
    FLEXIBLE.write_text(out, value.assignor)
    # Kafka reads a member without this field as one of the classic protocol.
    _write_tag(out, _NULL if value.classic is None else _packed_classic(value.classic))


def _packed_classic(value: ClassicMember) -> bytes:
    out = bytearray(_NOT_NULL + _INT32.pack(value.session_timeout_ms))
    FLEXIBLE.write_length(out, len(value.protocols))
    for name, metadata in value.protocols:
        FLEXIBLE.write_text(out, name)
        FLEXIBLE.write_length(out, len(metadata))
        out += metadata
        FLEXIBLE.write_no_tags(out)
    FLEXIBLE.write_no_tags(out)
    return bytes(out)


def _read_classic(value: Any) -> ClassicMember | None:
    if value[:1] == _NULL:
        return None
    session_timeout_ms = _INT32.unpack_from(value, 1)[0]
    count, position = FLEXIBLE.read_count(value, 1 + _INT32.size, _MIN_PROTOCOL_BYTES)
    protocols = []
    for _ in range(count):
        name, position = FLEXIBLE.read_text(value, position)
        metadata, position = FLEXIBLE.read_blob(value, position)
        protocols.append((name, bytes(metadata)))
        position = FLEXIBLE.skip_tags(value, position)
    return ClassicMember(session_timeout_ms, tuple(protocols))


def _read_epoch(value: bytes) -> GroupEpoch:
    tagged, _ = _read_tag(value, 6)
    metadata_hash = 0 if tagged is None else _INT64.unpack(tagged)[0]
    return GroupEpoch(_INT32.unpack_from(value, 2)[0], metadata_hash)


def _read_subscription(value: bytes) -> Subscription:
    instance_id, position = FLEXIBLE.read_nullable_text(value, 2)
    rack_id, position = FLEXIBLE.read_nullable_text(value, position)
    client_id, position = FLEXIBLE.read_text(value, position)
    client_host, position = FLEXIBLE.read_text(value, position)
    names, position = _read_texts(value, position)
    regex, position = FLEXIBLE.read_nullable_text(value, position)
    rebalance_timeout_ms = _INT32.unpack_from(value, position)[0]
    assignor, position = FLEXIBLE.read_nullable_text(value, position + _INT32.size)
    classic, _ = _read_tag(value, position)
    return Subscription(
        instance_id,
        rack_id,
        client_id,
        client_host,
        names,
        regex,
        rebalance_timeout_ms,
        assignor,
        None if classic is None else _read_classic(classic),
    )


def _read_target_epoch(value: bytes) -> TargetEpoch:
    tagged, _ = _read_tag(value, 6)
    timestamp_ms = NO_TIMESTAMP if tagged is None else _INT64.unpack(tagged)[0]
    return TargetEpoch(_INT32.unpack_from(value, 2)[0], timestamp_ms)


def _read_target(value: bytes) -> Target:
    found, position = _read_topics(value, 2)
    FLEXIBLE.skip_tags(value, position)
    return tuple(found)


def _read_current(value: bytes) -> Current:
    epoch = _INT32.unpack_from(value, 2)[0]
    number = value[10]
    state = MemberState(number) if number in set(MemberState) else MemberState.UNKNOWN
    assigned, position = _read_topics(value, 11)
    revoking, position = _read_topics(value, position)
    FLEXIBLE.skip_tags(value, position)
    return Current(
        epoch,
        _INT32.unpack_from(value, 6)[0],
        state,
        *(
            {each: epoch if at is None else at for each, at in it.items()}
            for it in (assigned, revoking)
        ),
    )


def _read_regex(value: bytes) -> ResolvedRegex:
    topics, position = _read_texts(value, 2)
    version = _INT64.unpack_from(value, position)[0]
    timestamp_ms = _INT64.unpack_from(value, position + _INT64.size)[0]
    FLEXIBLE.skip_tags(value, position + 2 * _INT64.size)
    return ResolvedRegex(topics, version, timestamp_ms)


_READERS: Final[Mapping[Kind, Callable[[bytes], Value]]] = {
    Kind.EPOCH: _read_epoch,
    Kind.SUBSCRIPTION: _read_subscription,
    Kind.TARGET_EPOCH: _read_target_epoch,
    Kind.TARGET: _read_target,
    Kind.CURRENT: _read_current,
    Kind.REGEX: _read_regex,
}

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
classic notation, values in the flexible one, with version 0 (`LAYOUTS`).

Source: KIP-848, KIP-1101 (hash), KIP-1251 (epochs of assignments).
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from itertools import groupby
from typing import Any, Final, NamedTuple

from tidelog.model import NO_TIMESTAMP, TopicId
from tidelog.wire.layouts import FLEXIBLE, INT8, INT32, INT64, UUID, Tag, converted
from tidelog.wire.primitives import Codec

_NULL, _NOT_NULL = 0, 1
"""What a structure that may be null begins with."""


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


class ConsumerRecord(NamedTuple):
    """Something of a consumer group has changed, or with `None` is gone."""

    kind: Kind
    group_id: str
    name: str
    """The member, or the regular expression; empty where the key has the group alone."""
    value: Value | None


OF_GROUPS: Final = frozenset((Kind.EPOCH, Kind.TARGET_EPOCH))
"""The kinds whose key has the group alone."""


# The layout of each kind ---------------------------------------------------------------------

_TOPIC: Final = FLEXIBLE.layout(tuple, UUID, FLEXIBLE.numbers, tags=[Tag(FLEXIBLE.numbers, ())])
"""A topic, its partitions, and maybe the epoch in which the member got each of them."""


def _rows_of_target(target: Target) -> list[tuple[TopicId, list[int], tuple[int, ...]]]:
    """Partitions of one topic that come one after the other together."""
    return [
        (topic_id, [row.partition for row in rows], ())
        for topic_id, rows in groupby(target, lambda each: each.topic_id)
    ]


def _rows_of_owned(owned: Owned) -> list[tuple[TopicId, list[int], tuple[int, ...]]]:
    """The same with epochs."""
    return [
        (topic_id, numbers, tuple(owned[IdPartition(topic_id, number)] for number in numbers))
        for topic_id, numbers, _ in _rows_of_target(tuple(owned))
    ]


def _owned_of(rows: Iterable[Any]) -> dict[IdPartition, int | None]:
    """Partitions with their epochs where there are some (KIP-1251)."""
    return {
        IdPartition(TopicId(topic_id), number): epoch
        for topic_id, numbers, epochs in rows
        for number, epoch in zip(numbers, epochs or (None,) * len(numbers), strict=False)
    }


def _current_of(elements: list[Any]) -> Current:
    epoch, previous_epoch, state, *all_owned = elements
    known = MemberState(state) if state in set(MemberState) else MemberState.UNKNOWN
    assigned, revoking = (
        {each: epoch if at is None else at for each, at in owned.items()} for owned in all_owned
    )
    return Current(epoch, previous_epoch, known, assigned, revoking)


_OWNED: Final = converted(FLEXIBLE.array(_TOPIC), _owned_of, _rows_of_owned)
TARGET_LAYOUT: Final = converted(
    FLEXIBLE.array(_TOPIC), lambda rows: tuple(_owned_of(rows)), _rows_of_target
)
_CLASSIC: Final = FLEXIBLE.layout(
    ClassicMember._make, INT32, FLEXIBLE.array(FLEXIBLE.layout(tuple, FLEXIBLE.text, FLEXIBLE.blob))
)


def _read_classic(buffer: Any, position: int) -> tuple[ClassicMember | None, int]:
    if buffer[position] == _NULL:
        return None, position + 1
    return _CLASSIC.read(buffer, position + 1)


def _write_classic(out: bytearray, value: ClassicMember | None) -> None:
    out.append(_NULL if value is None else _NOT_NULL)
    if value is not None:
        _CLASSIC.write(out, value)


LAYOUTS: Final[Mapping[int, Codec]] = {
    Kind.EPOCH: FLEXIBLE.layout(GroupEpoch._make, INT32, tags=[Tag(INT64, 0)]),
    Kind.SUBSCRIPTION: FLEXIBLE.layout(
        Subscription._make,
        FLEXIBLE.nullable_text,
        FLEXIBLE.nullable_text,
        FLEXIBLE.text,
        FLEXIBLE.text,
        FLEXIBLE.array(FLEXIBLE.text),
        FLEXIBLE.nullable_text,
        INT32,
        FLEXIBLE.nullable_text,
        # Kafka reads a member without this field as one of the classic protocol.
        tags=[Tag(Codec(_read_classic, _write_classic, 1), None, is_always_written=True)],
    ),
    Kind.TARGET_EPOCH: FLEXIBLE.layout(TargetEpoch._make, INT32, tags=[Tag(INT64, NO_TIMESTAMP)]),
    Kind.TARGET: converted(
        FLEXIBLE.layout(tuple, TARGET_LAYOUT), lambda elements: elements[0], lambda it: (it,)
    ),
    Kind.CURRENT: FLEXIBLE.layout(_current_of, INT32, INT32, INT8, _OWNED, _OWNED),
    Kind.REGEX: FLEXIBLE.layout(ResolvedRegex._make, FLEXIBLE.array(FLEXIBLE.text), INT64, INT64),
}

"""What consumers of the classic protocol put into JoinGroup and SyncGroup: subscriptions and
assignments.

Brokers carry both without looking into them, but for three cases: which topics a group reads (their
committed offsets neither expire nor are deleted), how far it is (tools), and where members of both
protocols meet in one group.

    subscription = version i16 | topics | user data | owned partitions (1+) | generation (2+)
                   | rack (3+)
    assignment   = version i16 | partitions | user data

All of it is in the classic notation. Later versions only add fields at the end, so a reader that
does not know them takes what it knows.

Source: KIP-429 (owned partitions), KIP-792 (generation), KIP-881 (rack).
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Final, NamedTuple

from tidelog.errors import MalformedFrame
from tidelog.model import TopicPartition
from tidelog.wire.layouts import CLASSIC, INT16, INT32, absent, converted, written
from tidelog.wire.notation import MALFORMED
from tidelog.wire.primitives import LEGACY_32, Codec

CONSUMERS: Final = "consumer"
"""The protocol type of groups whose members say these things."""

_VERSION_BYTES: Final = 2
_OWNED_FROM: Final = 1
_GENERATION_FROM: Final = 2
_RACK_FROM: Final = 3


class ConsumerSubscription(NamedTuple):
    """What a member wants."""

    version: int
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    """What it still uses; members that give everything back before they join say nothing."""
    rack: str | None = None


class ConsumerAssignment(NamedTuple):
    """What a member gets."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes = b""
    """Of an assignor that is not Kafka's."""


def _partitions_of(rows: Iterable[tuple[str, Iterable[int]]]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, number) for topic, numbers in rows for number in numbers)


def _rows_of(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    by_topic = groupby(sorted(partitions), lambda each: each.topic)
    return [(topic, [row.partition for row in rows]) for topic, rows in by_topic]


_PARTITIONS: Final = converted(
    CLASSIC.array(CLASSIC.layout(tuple, CLASSIC.text, CLASSIC.numbers)), _partitions_of, _rows_of
)
_TOPICS: Final = CLASSIC.array(CLASSIC.text)
"""What every subscription begins with, behind its version."""
_ASSIGNMENT: Final = CLASSIC.layout(ConsumerAssignment._make, _PARTITIONS, CLASSIC.blob)


def _layout_of_subscriptions(version: int) -> Codec:
    return CLASSIC.layout(
        tuple,
        _TOPICS,
        CLASSIC.blob,
        _PARTITIONS if version >= _OWNED_FROM else absent(()),
        INT32 if version >= _GENERATION_FROM else absent(-1),
        CLASSIC.nullable_text if version >= _RACK_FROM else absent(None),
    )


_SUBSCRIPTIONS: Final = tuple(
    _layout_of_subscriptions(version) for version in range(_RACK_FROM + 1)
)


def subscription_of(metadata: bytes) -> ConsumerSubscription:
    """Reads what a member says about itself. Raises `MalformedFrame`."""
    try:
        version, position = _version(metadata)
        known = _SUBSCRIPTIONS[min(version, _RACK_FROM)]
        (topics, _, owned, _, rack), _ = known.read(metadata, position)
    except MALFORMED as error:
        raise MalformedFrame(f"a subscription is cut: {error}") from None
    return ConsumerSubscription(version, topics, owned, rack)


def topics_of(members: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of members of any version, future ones included; `None` when one of them cannot be
    read."""
    try:
        return frozenset(
            topic for each in members for topic in _TOPICS.read(each, _VERSION_BYTES)[0]
        )
    except (MalformedFrame, *MALFORMED):
        return None


def assignment_of(assignment: bytes) -> ConsumerAssignment:
    """Reads what a member was given; nothing is an empty assignment. Raises `MalformedFrame`."""
    if not assignment:
        return ConsumerAssignment(())
    try:
        _, position = _version(assignment)
        found: ConsumerAssignment = _ASSIGNMENT.read(assignment, position)[0]
    except MALFORMED as error:
        raise MalformedFrame(f"an assignment is cut: {error}") from None
    return found


def pack_assignment(version: int, partitions: Iterable[TopicPartition]) -> bytes:
    """What a member is given, for one that speaks this version."""
    out = bytearray(written(_PARTITIONS, partitions, version))
    LEGACY_32.write(out, -1)
    return bytes(out)


def _version(data: bytes) -> tuple[int, int]:
    version, position = INT16.read(data, 0)
    if version < 0:
        raise MalformedFrame(f"version `{version}` of the consumers' protocol")
    return version, position

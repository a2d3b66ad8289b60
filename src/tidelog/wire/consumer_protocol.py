"""What consumers of the classic protocol put into JoinGroup and SyncGroup: subscriptions and
assignments.

Brokers carry both without looking into them, but for three cases: which topics a group reads, how
far it is (tools), and where members of both protocols meet in one group.

    subscription = version i16 | topics | user data | owned partitions (1+) | generation (2+)
                   | rack (3+)
    assignment   = version i16 | partitions | user data

All of it is in the classic notation. Later versions only add fields at the end, so a reader that
does not know them takes what it knows.

Source: KIP-429 (owned partitions), KIP-792 (generation), KIP-881 (rack).
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final, NamedTuple

from tidelog.errors import MalformedFrame
from tidelog.model import TopicPartition
from tidelog.wire.notation import CLASSIC, INT16, INT32, MALFORMED

OWNED_FROM: Final = 1
RACK_FROM: Final = 3
_MIN_NAME_BYTES: Final = 2
_MIN_TOPIC_BYTES: Final = 6


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


def subscription_of(metadata: bytes) -> ConsumerSubscription:
    """Reads what a member says about itself. Raises `MalformedFrame`."""
    try:
        version, position = _version(metadata)
        count, position = CLASSIC.read_count(metadata, position, _MIN_NAME_BYTES)
        topics = []
        for _ in range(count):
            topic, position = CLASSIC.read_text(metadata, position)
            topics.append(topic)
        _, position = _blob(metadata, position)
        owned: tuple[TopicPartition, ...] = ()
        rack = None
        if version >= OWNED_FROM:
            owned, position = _partitions(metadata, position)
        if version >= RACK_FROM:
            rack, position = CLASSIC.read_nullable_text(metadata, position + INT32.size)
    except MALFORMED as error:
        raise MalformedFrame(f"a subscription is cut: {error}") from None
    return ConsumerSubscription(version, tuple(topics), owned, rack)


def assignment_of(assignment: bytes) -> ConsumerAssignment:
    """Reads what a member was given; nothing is an empty assignment. Raises `MalformedFrame`."""
    if not assignment:
        return ConsumerAssignment(())
    try:
        _, position = _version(assignment)
        partitions, position = _partitions(assignment, position)
        user_data, _ = _blob(assignment, position)
    except MALFORMED as error:
        raise MalformedFrame(f"an assignment is cut: {error}") from None
    return ConsumerAssignment(partitions, user_data)


def pack_assignment(version: int, partitions: Iterable[TopicPartition]) -> bytes:
    """What a member is given, for one that speaks this version."""
    out = bytearray(INT16.pack(version))
    topics = [(topic, list(rows)) for topic, rows in groupby(sorted(partitions), lambda it: it[0])]
    CLASSIC.write_length(out, len(topics))
    for topic, rows in topics:
        CLASSIC.write_text(out, topic)
        CLASSIC.write_length(out, len(rows))
        for _, number in rows:
            out += INT32.pack(number)
    CLASSIC.write_length(out, -1)
    return bytes(out)


def _version(data: bytes) -> tuple[int, int]:
    (version,) = INT16.unpack_from(data)
    if version < 0:
        raise MalformedFrame(f"version `{version}` of the consumers' protocol")
    return version, INT16.size


def _partitions(data: bytes, position: int) -> tuple[tuple[TopicPartition, ...], int]:
    found = []
    topics, position = CLASSIC.read_count(data, position, _MIN_TOPIC_BYTES)
    for _ in range(topics):
        topic, position = CLASSIC.read_text(data, position)
        count, position = CLASSIC.read_count(data, position, INT32.size)
        for _ in range(count):
            found.append(TopicPartition(topic, INT32.unpack_from(data, position)[0]))
            position += INT32.size
    return tuple(found), position


def _blob(data: Any, position: int) -> tuple[bytes, int]:
    found, position = CLASSIC.read_blob(data, position)
    return bytes(found or b""), position

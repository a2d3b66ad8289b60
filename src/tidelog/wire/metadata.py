"""The topics of a Metadata answer, packed by hand.

An answer may name ten thousand partitions, and after a failover every client asks. The generic
writer takes 7 µs for a partition, half of it for lists that thousands of partitions share. Here
what follows the epoch (replicas, ISR, offline replicas) is packed once for each different set, and
a topic is bytes that the caller may keep. All else of the answer is left to the generic writer:
`with_topics` puts the packed topics into an answer that was encoded without any.

Source: the protocol guide, Metadata versions 0 to 13.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from tidelog.model import TopicId
from tidelog.wire.notation import NO_TAGS, write_uvarint

FIRST_FLEXIBLE: Final = 9
_WITHOUT_EPOCH: Final = Struct(">hii")
_WITH_EPOCH: Final = Struct(">hiii")
_LENGTH: Final = 4
_TRAILERS: Final = {8: 4, 9: 5, 10: 5, 11: 1, 12: 1, 13: 3}
"""Bytes behind the topics by version: operations (8 to 10), the error of the whole (13), tags."""


class Members(NamedTuple):
    """What many partitions share."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


def pack_members(version: int, members: Members) -> bytes:
    """The end of a partition."""
    out = bytearray()
    for nodes in members[: 3 if version >= 5 else 2]:
        out += _count(version, len(nodes))
        for node_id in nodes:
            out += node_id.to_bytes(4, "big", signed=True)
    if version >= FIRST_FLEXIBLE:
        out.append(NO_TAGS)
    return bytes(out)


def pack_partition(
    version: int, code: int, index: int, leader_id: int, leader_epoch: int, members: bytes
) -> bytes:
    """One partition; `members` is what `pack_members` made."""
    if version >= 7:
        return _WITH_EPOCH.pack(code, index, leader_id, leader_epoch) + members
    return _WITHOUT_EPOCH.pack(code, index, leader_id) + members


def pack_topic(
    version: int,
    name: str,
    topic_id: TopicId,
    is_internal: bool,
    partitions: Sequence[bytes],
    operations: int,
) -> bytes:
    """A topic that exists."""
    text = name.encode()
    length = (
        _count(version, len(text)) if version >= FIRST_FLEXIBLE else len(text).to_bytes(2, "big")
    )
    parts = [b"\x00\x00", length, text]
    if version >= 10:
        parts.append(topic_id)
    if version >= 1:
        parts.append(bytes((is_internal,)))
    parts += (_count(version, len(partitions)), *partitions)
    if version >= 8:
        parts.append(operations.to_bytes(4, "big", signed=True))
    if version >= FIRST_FLEXIBLE:
        parts.append(bytes((NO_TAGS,)))
    return b"".join(parts)


def with_topics(version: int, answer: bytes, topics: Sequence[bytes]) -> list[bytes]:
    """The chunks of a framed answer that was encoded without topics, with these."""
    end = len(answer) - _TRAILERS.get(version, 0)
    count = _count(version, len(topics))
    head = answer[_LENGTH : end - len(_count(version, 0))]
    body = b"".join(topics)
    size = len(head) + len(count) + len(body) + len(answer) - end
    return [size.to_bytes(_LENGTH, "big") + head + count, body, answer[end:]]


def _count(version: int, count: int) -> bytes:
    """The length of an array; of a string too in flexible versions."""
    if version < FIRST_FLEXIBLE:
        return count.to_bytes(4, "big")
    out = bytearray()
    write_uvarint(out, count + 1)
    return bytes(out)

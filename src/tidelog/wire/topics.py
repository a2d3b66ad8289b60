"""What Fetch and Produce have in common: topic entries, and hints who leads (KIP-951).

A partition's list entry belongs to a topic entry, which has a name below version 13 and an id
from version 13 on, in both APIs. The values of this project are flat: each partition carries its
topic, and packing puts neighbours together again.

A broker that does not lead a partition may name the leader: leader id and epoch with the partition,
and the leader's address once at the end of the response.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from tidelog.errors import MalformedFrame
from tidelog.model import ZERO_TOPIC_ID, Endpoint, TopicId
from tidelog.wire.notation import (
    FLEXIBLE,
    INT32,
    NO_TAGS,
    UUID_BYTES,
    Notation,
    check_tag,
    read_tags,
    skip_tags,
)

MIN_TOPIC_BYTES: Final = 3
"""No topic entry takes fewer, in any version."""
_MIN_ENDPOINT_BYTES: Final = 11
_NODE_ENDPOINTS_TAG: Final = 0
_LEADER: Final = Struct(">iiB")

NodeEndpoints = list[tuple[int, Endpoint, str | None]]
"""(node id, endpoint, rack). The listener's name is not sent."""


class LeaderHint(NamedTuple):
    """Who leads a partition now (KIP-951)."""

    leader_id: int
    leader_epoch: int


# Topic entries ------------------------------------------------------------------------------


def read_topic(
    notation: Notation, has_id: bool, view: Any, position: int, min_bytes: int
) -> tuple[str, TopicId, int, int]:
    """Name and id of a topic entry, one of them empty, how many partitions follow, each of at
    least so many bytes, and the position of the first."""
    if has_id:
        end = position + UUID_BYTES
        if end > len(view):
            raise MalformedFrame("the frame ends inside a topic id")
        topic, topic_id = "", view[position:end].tobytes()
        count, position = notation.read_count(view, end, min_bytes)
    else:
        topic, position = notation.read_text(view, position)
        topic_id = ZERO_TOPIC_ID
        count, position = notation.read_count(view, position, min_bytes)
    return topic, topic_id, count, position


class _HasTopic(Protocol):
    @property
    def topic(self) -> str: ...
    @property
    def topic_id(self) -> TopicId: ...


_P = TypeVar("_P", bound=_HasTopic)


def runs_of_topics(partitions: list[_P]) -> list[list[_P]]:
    """Neighbours of one topic together. The order carries meaning (KIP-227), so a topic may come
    more than once."""
    if len(partitions) == 1:
        return [partitions]
    runs: list[list[_P]] = []
    previous: tuple[str, TopicId] | None = None
    for partition in partitions:
        topic = (partition.topic, partition.topic_id)
        if topic != previous:
            runs.append([])
            previous = topic
        runs[-1].append(partition)
    return runs


def write_topic(notation: Notation, has_id: bool, out: bytearray, run: Sequence[_HasTopic]) -> None:
    """Appends the name or the id of a topic entry, and how many partitions follow."""
    if has_id:
        topic_id = run[0].topic_id
        assert len(topic_id) == UUID_BYTES, f"a topic id has 16 bytes, not {len(topic_id)}"
        out += topic_id
    else:
        notation.write_text(out, run[0].topic)
    notation.write_length(out, len(run))


# Leader hints -------------------------------------------------------------------------------


def pack_leader(leader: LeaderHint) -> bytes:
    """The content of a current-leader field."""
    return _LEADER.pack(leader.leader_id, leader.leader_epoch, NO_TAGS)


def read_leader(tag: int, view: memoryview, start: int, end: int) -> LeaderHint:
    """The content of the current-leader field that stands in `start:end`."""
    leader_id, leader_epoch, _ = _LEADER.unpack_from(view, start)
    check_tag(tag, skip_tags(view, start + _LEADER.size - 1), end)
    return LeaderHint(leader_id, leader_epoch)


def write_endpoints(out: bytearray, endpoints: NodeEndpoints) -> None:
    """Appends the list of where the hinted leaders are reached."""
    FLEXIBLE.write_length(out, len(endpoints))
    for node_id, endpoint, rack in endpoints:
        out += INT32.pack(node_id)
        FLEXIBLE.write_text(out, endpoint.host)
        out += INT32.pack(endpoint.port)
        FLEXIBLE.write_text(out, rack)
        out.append(NO_TAGS)


def endpoint_tags(endpoints: NodeEndpoints) -> list[tuple[int, bytearray]]:
    """The tagged fields that end a response: where the hinted leaders are reached."""
    out = bytearray()
    write_endpoints(out, endpoints)
    return [(_NODE_ENDPOINTS_TAG, out)]


def read_endpoint_tags(
    supported: bool, view: memoryview, position: int
) -> tuple[NodeEndpoints, int]:
    """The inverse of `endpoint_tags`, and the position behind. Listener names are not sent."""
    endpoints: NodeEndpoints = []
    tags, position = read_tags(view, position)
    for tag, start, end in tags:
        if tag != _NODE_ENDPOINTS_TAG or not supported:
            continue
        count, stop = FLEXIBLE.read_count(view, start, _MIN_ENDPOINT_BYTES)
        for _ in range(count):
            node_id = INT32.unpack_from(view, stop)[0]
            host, stop = FLEXIBLE.read_text(view, stop + INT32.size)
            port = INT32.unpack_from(view, stop)[0]
            rack, stop = FLEXIBLE.read_nullable_text(view, stop + INT32.size)
            stop = skip_tags(view, stop)
            endpoints.append((node_id, Endpoint("", host, port), rack))
        check_tag(tag, stop, end)
    return endpoints, position

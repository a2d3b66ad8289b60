"""Which broker leads which partition, and the offsets of partitions.

A broker answers a consumer's ListOffsets for what it leads. The debugging consumer (replica id -2)
is answered by every replica, from its own log.

Source: KIP-207 (OFFSET_NOT_AVAILABLE), KIP-320 (leader epochs), KIP-516 (topic ids).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidelog.client.core.calls import Call, fetch_call, request
from tidelog.client.core.errors import TopicError, TryAgain
from tidelog.client.core.values import Address
from tidelog.errors import ErrorCode
from tidelog.model import NO_EPOCH, NO_LEADER, ZERO_TOPIC_ID, TopicId, TopicPartition
from tidelog.wire import fetch
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import field
from tidelog.wire.values import bytes_of, error_of

CONSUMER: Final = -1
DEBUGGING_CONSUMER: Final = -2
NEWEST_FETCH_BY_NAME: Final = 12
"""Later versions of Fetch name topics by id."""


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of a partition."""

    topic_id: TopicId
    node_id: int
    """-1 while there is none."""
    epoch: int


@dataclass(frozen=True, slots=True)
class Metadata:
    """Brokers, and the leaders of the partitions of some topics."""

    brokers: dict[int, Address]
    leaders: dict[TopicPartition, Leader]

    def partitions_of(self, topic: str) -> list[int]:
        """The partition numbers of a topic, ascending."""
        return sorted(tp.partition for tp in self.leaders if tp.topic == topic)

    def topic_ids(self) -> dict[str, TopicId]:
        """The ids of the topics."""
        return {tp.topic: leader.topic_id for tp, leader in self.leaders.items()}

    def leader_of(self, tp: TopicPartition) -> Leader:
        """The leader of a partition. Raises `TryAgain` when there is none."""
        leader = self.leaders.get(tp)
        if leader is None:
            raise TryAgain(f"`{tp}` is not in the cluster's metadata")
        if leader.node_id == NO_LEADER:
            raise TryAgain(f"`{tp}` has no leader")
        return leader

    def address_of(self, node_id: int) -> Address:
        """Where a broker is reached. Raises `TryAgain` for one that is not known."""
        address = self.brokers.get(node_id)
        if address is None:
            raise TryAgain(f"broker {node_id} is not in the cluster's metadata")
        return address


def metadata_request(topics: Sequence[str] | None, *, create: bool = False) -> Call[Any]:
    """The metadata of these topics, `None` for all topics; `create` makes those that are missing,
    if the cluster does that."""
    return request(
        ApiKey.METADATA,
        topics=None if topics is None else [{"name": name, "topic_id": None} for name in topics],
        allow_auto_topic_creation=create,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def read_metadata(answer: Any) -> Metadata:
    """What the broker answered. Raises `TopicError` for the first topic without metadata."""
    brokers = {int(b.node_id): Address(b.host, int(b.port)) for b in answer.brokers}
    leaders = {}
    for topic in answer.topics:
        code = error_of(topic.error_code)
        if code is not ErrorCode.NONE:
            raise TopicError(topic.name, code)
        topic_id = TopicId(bytes_of(field(topic, "topic_id", None)))
        for row in topic.partitions:
            leaders[TopicPartition(topic.name, int(row.partition_index))] = Leader(
                topic_id, int(row.leader_id), field(row, "leader_epoch", NO_EPOCH)
            )
    return Metadata(brokers, leaders)


def list_offsets(
    wanted: Mapping[TopicPartition, tuple[int, int]],
    *,
    read_committed: bool = False,
    replica_id: int = CONSUMER,
) -> Call[Any]:
    """Offsets of (timestamp, leader epoch) for each partition."""
    rows = {
        tp: {"timestamp": timestamp, "current_leader_epoch": epoch}
        for tp, (timestamp, epoch) in wanted.items()
    }
    return request(
        ApiKey.LIST_OFFSETS,
        replica_id=replica_id,
        isolation_level=fetch.READ_COMMITTED if read_committed else fetch.READ_UNCOMMITTED,
        topics=by_topic(rows),
    )


def read_offsets(answer: Any) -> dict[TopicPartition, tuple[ErrorCode, int]]:
    """The error and the offset of each partition."""
    return {
        TopicPartition(topic.name, int(row.partition_index)): (
            error_of(row.error_code),
            int(row.offset),
        )
        for topic in answer.topics
        for row in topic.partitions
    }


def high_watermarks(ends: Mapping[TopicPartition, int]) -> Call[fetch.FetchResponse]:
    """A debugging consumer's fetch at the end of a replica's logs: the answer has no records, but
    the replica's high watermarks."""
    partitions = [
        fetch.FetchPartition(tp.topic, ZERO_TOPIC_ID, tp.partition, NO_EPOCH, end, NO_EPOCH, -1, 0)
        for tp, end in ends.items()
    ]
    isolation = fetch.READ_UNCOMMITTED
    return fetch_call(
        fetch.FetchRequest(DEBUGGING_CONSUMER, -1, 0, 0, 0, isolation, 0, -1, partitions, []),
        NEWEST_FETCH_BY_NAME,
    )


def by_topic(rows: Mapping[TopicPartition, Mapping[str, object]]) -> list[dict[str, Any]]:
    """The `topics` of a request that names partitions, each with these fields beside its index."""
    topics: dict[str, dict[str, Any]] = {}
    for tp, fields in rows.items():
        topic = topics.setdefault(tp.topic, {"name": tp.topic, "partitions": []})
        topic["partitions"].append({"partition_index": tp.partition, **fields})
    return list(topics.values())

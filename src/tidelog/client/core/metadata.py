"""Which broker leads which partition, as one broker described it.

Source: KIP-320 (leader epochs), KIP-516 (topic ids).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.client.core.calls import Call, request
from tidelog.client.core.errors import TopicError, TryAgain
from tidelog.client.core.values import Address
from tidelog.errors import ErrorCode
from tidelog.model import NO_EPOCH, NO_LEADER, TopicId, TopicPartition
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import field
from tidelog.wire.values import bytes_of, error_of


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

"""What answers about the cluster have in common: brokers, topics and partitions."""

from collections.abc import Sequence
from typing import Protocol

from tidelog.broker.api.needs import HasConfig, HasImage
from tidelog.errors import ErrorCode
from tidelog.metadata.image import MetadataImage, PartitionImage
from tidelog.model import INTERNAL_TOPICS, ZERO_TOPIC_ID, Endpoint, TopicId
from tidelog.security.rights import NOT_ASKED


class Node(HasConfig, HasImage, Protocol):
    """The node that answers, and what it knows."""


def brokers_to_name(node: Node, listener: str) -> list[tuple[int, Endpoint, str | None]]:
    """(node id, endpoint, rack) of the alive brokers; if there are none, of this one."""
    image, node_id = node.image, node.config.node_id
    alive, end = image.alive_brokers(listener), image.endpoint(node_id, listener)
    if alive or end is None:
        return alive
    return [(node_id, end, image.brokers[node_id].rack)]


def any_alive_broker(node: Node) -> int:
    """Some alive broker, which clients take for the controller: this one if it is alive."""
    image = node.image
    if image.is_alive(node.config.node_id):
        return node.config.node_id
    return next((node_id for node_id in sorted(image.brokers) if image.is_alive(node_id)), -1)


def topic_row(
    code: ErrorCode,
    name: str | None,
    topic_id: TopicId = ZERO_TOPIC_ID,
    partitions: Sequence[object] = (),
    operations: int = NOT_ASKED,
) -> dict[str, object]:
    """The fields of a topic; `operations` as `authorized_operations` has them."""
    return {
        "error_code": code,
        "name": name,
        "topic_id": topic_id,
        "is_internal": name in INTERNAL_TOPICS,
        "partitions": partitions,
        "topic_authorized_operations": operations,
    }


def partition_row(
    image: MetadataImage, code: ErrorCode, leader_id: int, index: int, partition: PartitionImage
) -> dict[str, object]:
    """The fields of a partition, with the leader that the client may know."""
    return {
        "error_code": code,
        "partition_index": index,
        "leader_id": leader_id,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.isr,
        "eligible_leader_replicas": partition.eligible_leaders,
        "last_known_elr": partition.last_known_eligible_leaders,
        "offline_replicas": image.offline_replicas(partition),
    }

"""DescribeQuorum (55), versions 0-2: the metadata quorum as its leader sees it.

A broker forwards the request to the active controller. Fetch and caught-up times are wall time.
"""

from typing import Final, Protocol

from tidelog.broker.api.answers import refused_at_top, reply
from tidelog.broker.api.checks import cluster
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, QuorumQueryApi, VersionRange
from tidelog.broker.api.k62_broker_registration import LISTENER
from tidelog.broker.api.needs import HasClock, HasQuorum
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.kraft.messages import QuorumDescription, ReplicaProgress
from tidelog.model import METADATA_TOPIC
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity


class Node(HasClock, HasQuorum, Protocol):
    """What DescribeQuorum needs."""


def entity_of(node: Node, response_type: type, request: Entity, now: Instant) -> Entity:
    """The reply; NOT_LEADER_OR_FOLLOWER when another node leads."""
    topics = []
    for topic in request.topics:
        known = topic.topic_name == METADATA_TOPIC
        partitions = [
            _partition(node, partition.partition_index, known, now)
            for partition in topic.partitions
        ]
        topics.append({"topic_name": topic.topic_name, "partitions": partitions})
    nodes = [
        {"node_id": node_id, "listeners": [*map(LISTENER.write, voter.endpoints)]}
        for node_id, voter in node.quorum.voters.items()
    ]
    return reply(response_type, topics=topics, nodes=nodes)


def _partition(node: Node, index: int, known: bool, now: Instant) -> dict[str, object]:
    code = ErrorCode.NONE
    if not known or index != 0:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif not node.quorum.is_leader:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    seen = node.quorum.describe(now) if code is ErrorCode.NONE else QuorumDescription()
    return {
        "partition_index": index,
        "error_code": code,
        "error_message": None if code is ErrorCode.NONE else code.name,
        "leader_id": node.quorum.leader_id,
        "leader_epoch": node.quorum.epoch,
        "high_watermark": seen.high_watermark,
        "current_voters": [_replica(node, item) for item in seen.voters],
        "observers": [_replica(node, item) for item in seen.observers],
    }


def _replica(node: Node, item: ReplicaProgress) -> dict[str, object]:
    fetched, caught_up = item.last_fetch_at, item.last_caught_up_at
    return {
        "replica_id": item.node_id,
        "replica_directory_id": item.directory_id,
        "log_end_offset": item.log_end_offset,
        "last_fetch_timestamp": -1 if fetched is None else node.wall_ms(fetched),
        "last_caught_up_timestamp": -1 if caught_up is None else node.wall_ms(caught_up),
    }


API: Final = QuorumQueryApi(
    key=ApiKey.DESCRIBE_QUORUM,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 2),
    requires=(cluster(Operation.DESCRIBE),),
    entity_of=entity_of,
    refusal_of=refused_at_top(topics=(), nodes=()),
)

"""DescribeQuorum (55), versions 0-2: the metadata quorum as its leader sees it.

A broker forwards the request to the active controller. Fetch and caught-up times are wall time.
"""

from typing import Final, Protocol

from tidelog.broker.api.answers import refused_at_top, reply
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, QuorumQueryApi, VersionRange
from tidelog.broker.api.needs import HasClock, HasQuorum
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.kraft.messages import QuorumDescription, ReplicaProgress
from tidelog.model import METADATA_TOPIC
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, has_field, make, nested
from tidelog.wire.values import error, uuid_of


class Node(HasClock, HasQuorum, Protocol):
    """What DescribeQuorum needs."""


def entity_of(node: Node, response_type: type, request: Entity, now: Instant) -> Entity:
    """The reply; NOT_LEADER_OR_FOLLOWER when another node leads."""
    topic_type = nested(response_type, "topics")
    partition_type = nested(topic_type, "partitions")
    topics = []
    for topic in request.topics:
        known = topic.topic_name == METADATA_TOPIC
        partitions = tuple(
            _partition(node, partition_type, partition.partition_index, known, now)
            for partition in topic.partitions
        )
        topics.append(make(topic_type, topic_name=topic.topic_name, partitions=partitions))
    values: dict[str, object] = {}
    if has_field(response_type, "nodes"):
        values["nodes"] = _nodes(node, response_type)
    return reply(response_type, topics=tuple(topics), **values)


def _partition(node: Node, partition_type: type, index: int, known: bool, now: Instant) -> Entity:
    code = ErrorCode.NONE
    if not known or index != 0:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif not node.quorum.is_leader:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    seen = node.quorum.describe(now) if code is ErrorCode.NONE else QuorumDescription()
    replica_type = nested(partition_type, "current_voters")
    return make(
        partition_type,
        partition_index=index,
        error_code=error(code),
        error_message=None if code is ErrorCode.NONE else code.name,
        leader_id=node.quorum.leader_id,
        leader_epoch=node.quorum.epoch,
        high_watermark=seen.high_watermark,
        current_voters=tuple(_replica(node, replica_type, item) for item in seen.voters),
        observers=tuple(_replica(node, replica_type, item) for item in seen.observers),
    )


def _replica(node: Node, replica_type: type, item: ReplicaProgress) -> Entity:
    fetched, caught_up = item.last_fetch_at, item.last_caught_up_at
    return make(
        replica_type,
        replica_id=item.node_id,
        replica_directory_id=uuid_of(item.directory_id),
        log_end_offset=item.log_end_offset,
        last_fetch_timestamp=-1 if fetched is None else node.wall_ms(fetched),
        last_caught_up_timestamp=-1 if caught_up is None else node.wall_ms(caught_up),
    )


def _nodes(node: Node, response_type: type) -> tuple[Entity, ...]:
    node_type = nested(response_type, "nodes")
    listener_type = nested(node_type, "listeners")
    return tuple(
        make(
            node_type,
            node_id=node_id,
            listeners=tuple(
                make(listener_type, name=end.listener, host=end.host, port=end.port)
                for end in voter.endpoints
            ),
        )
        for node_id, voter in node.quorum.voters.items()
    )


API: Final = QuorumQueryApi(
    key=ApiKey.DESCRIBE_QUORUM,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 2),
    requires=(on(Operation.DESCRIBE, ResourceType.CLUSTER),),
    entity_of=entity_of,
    refusal_of=refused_at_top(topics=(), nodes=()),
)

"""DescribeQuorum (55), versions 0-2: the metadata quorum as its leader sees it.

A broker forwards the question to the active controller. Fetch and caught-up times are wall time.
"""

from tidelog.broker.api.refusals import refusal
from tidelog.broker.connections import PendingRequest
from tidelog.broker.context import Broker
from tidelog.controller.messages import Response
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.kraft.messages import QuorumDescription, ReplicaProgress
from tidelog.model import METADATA_TOPIC
from tidelog.wire import codec
from tidelog.wire.entities import Entity, has_field, make, nested
from tidelog.wire.values import error, uuid_of


def handle(broker: Broker, pending: PendingRequest, request: Entity, now: Instant) -> None:
    """Answers from the local quorum state."""
    broker.answer(pending, response(broker, pending.header.api_version, request, now))


def response(broker: Broker, version: int, request: Entity, now: Instant) -> Entity:
    """The response entity; NOT_LEADER_OR_FOLLOWER when another node leads."""
    response_type = codec.response_class(55, version)
    topic_type = nested(response_type, "topics")
    partition_type = nested(topic_type, "partitions")
    topics = []
    for topic in request.topics:
        known = topic.topic_name == METADATA_TOPIC
        partitions = tuple(
            _partition(broker, partition_type, partition.partition_index, known, now)
            for partition in topic.partitions
        )
        topics.append(make(topic_type, topic_name=topic.topic_name, partitions=partitions))
    values: dict[str, object] = {
        "error_code": error(ErrorCode.NONE),
        "error_message": None,
        "topics": tuple(topics),
    }
    if has_field(response_type, "nodes"):
        values["nodes"] = _nodes(broker, response_type)
    return make(response_type, **values)


def entity_of(broker: Broker, version: int, request: Entity, response: Response) -> Entity:
    """The reply when no active controller could be asked."""
    code, message = refusal(response)
    response_type = codec.response_class(55, version)
    values: dict[str, object] = {"error_code": error(code), "error_message": message, "topics": ()}
    return make(response_type, nodes=(), **values)


def _partition(
    broker: Broker, partition_type: type, index: int, known: bool, now: Instant
) -> Entity:
    code = ErrorCode.NONE
    if not known or index != 0:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif not broker.quorum.is_leader:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    seen = broker.quorum.describe(now) if code is ErrorCode.NONE else QuorumDescription()
    replica_type = nested(partition_type, "current_voters")
    return make(
        partition_type,
        partition_index=index,
        error_code=error(code),
        error_message=None if code is ErrorCode.NONE else code.name,
        leader_id=broker.quorum.leader_id,
        leader_epoch=broker.quorum.epoch,
        high_watermark=seen.high_watermark,
        current_voters=tuple(_replica(broker, replica_type, item) for item in seen.voters),
        observers=tuple(_replica(broker, replica_type, item) for item in seen.observers),
    )


def _replica(broker: Broker, replica_type: type, item: ReplicaProgress) -> Entity:
    fetched, caught_up = item.last_fetch_at, item.last_caught_up_at
    return make(
        replica_type,
        replica_id=item.node_id,
        replica_directory_id=uuid_of(item.directory_id),
        log_end_offset=item.log_end_offset,
        last_fetch_timestamp=-1 if fetched is None else broker.wall_ms(fetched),
        last_caught_up_timestamp=-1 if caught_up is None else broker.wall_ms(caught_up),
    )


def _nodes(broker: Broker, response_type: type) -> tuple[Entity, ...]:
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
        for node_id, voter in broker.quorum.voters.items()
    )

"""AssignReplicasToDirs (73), version 0: where a broker's replicas are, or that they are lost."""

from typing import TYPE_CHECKING, Final

from tidelog.broker.api.refusals import code_of
from tidelog.controller.messages import (
    AssignedReplica,
    AssignReplicas,
    AssignReplicasResult,
    Refused,
    ReplicaDirectory,
    Response,
)
from tidelog.errors import ErrorCode
from tidelog.model import TopicId, Uuid
from tidelog.wire import codec
from tidelog.wire.entities import Entity, make, nested
from tidelog.wire.values import bytes_of, error, error_of, millis, uuid_of

if TYPE_CHECKING:
    from tidelog.broker.context import Broker

VERSION: Final = 0


def message_of(request: Entity) -> AssignReplicas:
    """The controller's message."""
    return AssignReplicas(
        request.broker_id,
        request.broker_epoch,
        tuple(
            ReplicaDirectory(
                TopicId(bytes_of(topic.topic_id)),
                partition.partition_index,
                Uuid(bytes_of(directory.id_)),
            )
            for directory in request.directories
            for topic in directory.topics
            for partition in topic.partitions
        ),
    )


def entity_of(broker: "Broker", version: int, request: Entity, response: Response) -> Entity:
    """The reply, grouped by directory and topic."""
    response_type = codec.response_class(73, version)
    results = response.results if isinstance(response, AssignReplicasResult) else ()
    return make(
        response_type,
        throttle_time=millis(0),
        error_code=error(code_of(response)),
        directories=_grouped(response_type, results),
    )


def _grouped(
    entity_type: type, items: "tuple[ReplicaDirectory, ...] | tuple[AssignedReplica, ...]"
) -> tuple[Entity, ...]:
    """The items as nested entities, in the order in which directories and topics came."""
    directory_type = nested(entity_type, "directories")
    topic_type = nested(directory_type, "topics")
    partition_type = nested(topic_type, "partitions")
    by_directory: dict[Uuid, dict[TopicId, list[Entity]]] = {}
    for item in items:
        fields = {"partition_index": item.partition}
        if isinstance(item, AssignedReplica):
            fields["error_code"] = error(item.error_code)
        topics = by_directory.setdefault(item.directory_id, {})
        topics.setdefault(item.topic_id, []).append(make(partition_type, **fields))
    return tuple(
        make(
            directory_type,
            id_=uuid_of(directory_id),
            topics=tuple(
                make(topic_type, topic_id=uuid_of(topic_id), partitions=tuple(partitions))
                for topic_id, partitions in topics.items()
            ),
        )
        for directory_id, topics in by_directory.items()
    )


def request_of(message: AssignReplicas) -> Entity:
    """The wire request."""
    request_type = codec.request_class(73, VERSION)
    return make(
        request_type,
        broker_id=message.broker_id,
        broker_epoch=message.broker_epoch,
        directories=_grouped(request_type, message.assignments),
    )


def response_of(message: AssignReplicas, entity: Entity) -> Response:
    """The controller's answer."""
    code = error_of(entity.error_code)
    if code is not ErrorCode.NONE:
        return Refused(code, code.name)
    return AssignReplicasResult(
        tuple(
            AssignedReplica(
                TopicId(bytes_of(topic.topic_id)),
                partition.partition_index,
                Uuid(bytes_of(directory.id_)),
                error_of(partition.error_code),
            )
            for directory in entity.directories
            for topic in directory.topics
            for partition in topic.partitions
        )
    )

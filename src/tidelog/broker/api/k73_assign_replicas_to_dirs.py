"""AssignReplicasToDirs (73), version 0: a broker reports in which directories its replicas
are, or that they are lost.
"""

from typing import Final

from tidelog.broker.api.answers import refused_at_top, reply
from tidelog.broker.api.declaration import CONTROLLERS, ControllerApi, Sending, VersionRange
from tidelog.controller.messages import (
    AssignedReplica,
    AssignReplicas,
    AssignReplicasResult,
    ReplicaDirectory,
)
from tidelog.model import TopicId, Uuid
from tidelog.security.rights import CLUSTER_ACTION
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, make, nested
from tidelog.wire.values import bytes_of, error, error_of, uuid_of


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


def entity_of(
    node: object, response_type: type, request: Entity, result: AssignReplicasResult
) -> Entity:
    """The reply, grouped by directory and topic."""
    return reply(response_type, directories=_grouped(response_type, result.results))


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


def request_of(request_type: type, message: AssignReplicas) -> Entity:
    """The wire request."""
    return make(
        request_type,
        broker_id=message.broker_id,
        broker_epoch=message.broker_epoch,
        directories=_grouped(request_type, message.assignments),
    )


def result_of(entity: Entity) -> AssignReplicasResult:
    """The result of every replica."""
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


API: Final = ControllerApi(
    key=ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    doc=__doc__,
    listeners=CONTROLLERS,
    versions=VersionRange(0, 0),
    sent_version=0,
    requires=CLUSTER_ACTION,
    message=AssignReplicas,
    result=AssignReplicasResult,
    message_of=message_of,
    entity_of=entity_of,
    refusal_of=refused_at_top(directories=()),
    sending=Sending(request_of=request_of, result_of=result_of),
)

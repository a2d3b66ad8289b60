"""ListPartitionReassignments (46), version 0, answered by the active controller."""

from typing import Final

from tidelog.broker.api.answers import refused_at_top, reply
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller.messages import ListReassignments, ListReassignmentsResult
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, make, nested


def message_of(request: Entity) -> ListReassignments:
    """The controller's message."""
    if request.topics is None:
        return ListReassignments(None)
    return ListReassignments(
        tuple((topic.name, tuple(topic.partition_indexes)) for topic in request.topics)
    )


def entity_of(
    node: object, response_type: type, request: Entity, result: ListReassignmentsResult
) -> Entity:
    """The reply, grouped by topic."""
    topic_type = nested(response_type, "topics")
    partition_type = nested(topic_type, "partitions")
    by_topic: dict[str, list[Entity]] = {}
    for item in result.found:
        by_topic.setdefault(item.topic, []).append(
            make(
                partition_type,
                partition_index=item.partition,
                replicas=item.replicas,
                adding_replicas=item.adding,
                removing_replicas=item.removing,
            )
        )
    return reply(
        response_type,
        topics=tuple(
            make(topic_type, name=topic, partitions=tuple(partitions))
            for topic, partitions in by_topic.items()
        ),
    )


API: Final = ControllerApi(
    key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 0),
    requires=(on(Operation.DESCRIBE, ResourceType.CLUSTER),),
    message=ListReassignments,
    result=ListReassignmentsResult,
    message_of=message_of,
    entity_of=entity_of,
    refusal_of=refused_at_top(topics=()),
)

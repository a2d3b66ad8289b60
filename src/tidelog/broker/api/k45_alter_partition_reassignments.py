"""AlterPartitionReassignments (45), versions 0-1, decided by the active controller.

Version 0 always allows another replication factor.
"""

from typing import Final

from tidelog.broker.api.answers import refused_at_top, reply
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller.messages import (
    AlterReassignments,
    AlterReassignmentsResult,
    Reassignment,
    Refused,
)
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field, make, nested
from tidelog.wire.values import error


def message_of(request: Entity) -> AlterReassignments:
    """The controller's message."""
    wishes = tuple(
        Reassignment(
            topic.name,
            partition.partition_index,
            None if partition.replicas is None else tuple(map(int, partition.replicas)),
        )
        for topic in request.topics
        for partition in topic.partitions
    )
    return AlterReassignments(wishes, _allows_another_factor(request))


def entity_of(
    node: object, response_type: type, request: Entity, result: AlterReassignmentsResult
) -> Entity:
    """The reply, grouped by topic."""
    topic_type = nested(response_type, "responses")
    partition_type = nested(topic_type, "partitions")
    by_topic: dict[str, list[Entity]] = {}
    for each in result.results:
        by_topic.setdefault(each.topic, []).append(
            make(
                partition_type,
                partition_index=each.partition,
                error_code=error(each.error_code),
                error_message=each.message,
            )
        )
    return reply(
        response_type,
        allow_replication_factor_change=_allows_another_factor(request),
        responses=tuple(
            make(topic_type, name=topic, partitions=tuple(partitions))
            for topic, partitions in by_topic.items()
        ),
    )


def refusal_of(response_type: type, request: Entity, refused: Refused) -> Entity:
    """The code stands at the top."""
    refuse = refused_at_top(
        allow_replication_factor_change=_allows_another_factor(request), responses=()
    )
    return refuse(response_type, request, refused)


def _allows_another_factor(request: Entity) -> bool:
    return bool(field(request, "allow_replication_factor_change", True))


API: Final = ControllerApi(
    key=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 1),
    requires=(on(Operation.ALTER, ResourceType.CLUSTER),),
    message=AlterReassignments,
    result=AlterReassignmentsResult,
    message_of=message_of,
    entity_of=entity_of,
    refusal_of=refusal_of,
)

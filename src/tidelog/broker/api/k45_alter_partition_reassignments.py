"""AlterPartitionReassignments (45), versions 0-1, decided by the active controller.

Version 0 always allows another replication factor.
"""

from typing import TYPE_CHECKING

from tidelog.broker.api.refusals import code_of
from tidelog.controller.messages import (
    AlterReassignments,
    AlterReassignmentsResult,
    Reassignment,
    Refused,
    Response,
)
from tidelog.wire import codec
from tidelog.wire.entities import Entity, field, make, nested
from tidelog.wire.values import error, millis

if TYPE_CHECKING:
    from tidelog.broker.context import Broker


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
    return AlterReassignments(wishes, field(request, "allow_replication_factor_change", True))


def entity_of(broker: "Broker", version: int, request: Entity, response: Response) -> Entity:
    """The reply, grouped by topic; a refusal of the whole request has the top-level code."""
    response_type = codec.response_class(45, version)
    topic_type = nested(response_type, "responses")
    partition_type = nested(topic_type, "partitions")
    by_topic: dict[str, list[Entity]] = {}
    results = response.results if isinstance(response, AlterReassignmentsResult) else ()
    for result in results:
        by_topic.setdefault(result.topic, []).append(
            make(
                partition_type,
                partition_index=result.partition,
                error_code=error(result.error_code),
                error_message=result.message,
            )
        )
    return make(
        response_type,
        throttle_time=millis(0),
        allow_replication_factor_change=field(request, "allow_replication_factor_change", True),
        error_code=error(code_of(response)),
        error_message=response.message if isinstance(response, Refused) else None,
        responses=tuple(
            make(topic_type, name=topic, partitions=tuple(partitions))
            for topic, partitions in by_topic.items()
        ),
    )

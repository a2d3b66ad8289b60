"""ListPartitionReassignments (46), version 0, answered by the active controller."""

from typing import TYPE_CHECKING

from tidelog.broker.api.refusals import code_of
from tidelog.controller.messages import (
    ListReassignments,
    ListReassignmentsResult,
    Refused,
    Response,
)
from tidelog.wire import codec
from tidelog.wire.entities import Entity, make, nested
from tidelog.wire.values import error, millis

if TYPE_CHECKING:
    from tidelog.broker.context import Broker


def message_of(request: Entity) -> ListReassignments:
    """The controller's message."""
    if request.topics is None:
        return ListReassignments(None)
    return ListReassignments(
        tuple((topic.name, tuple(topic.partition_indexes)) for topic in request.topics)
    )


def entity_of(broker: "Broker", version: int, request: Entity, response: Response) -> Entity:
    """The reply, grouped by topic."""
    response_type = codec.response_class(46, version)
    topic_type = nested(response_type, "topics")
    partition_type = nested(topic_type, "partitions")
    by_topic: dict[str, list[Entity]] = {}
    found = response.found if isinstance(response, ListReassignmentsResult) else ()
    for item in found:
        by_topic.setdefault(item.topic, []).append(
            make(
                partition_type,
                partition_index=item.partition,
                replicas=item.replicas,
                adding_replicas=item.adding,
                removing_replicas=item.removing,
            )
        )
    return make(
        response_type,
        throttle_time=millis(0),
        error_code=error(code_of(response)),
        error_message=response.message if isinstance(response, Refused) else None,
        topics=tuple(
            make(topic_type, name=topic, partitions=tuple(partitions))
            for topic, partitions in by_topic.items()
        ),
    )

"""CreatePartitions (37), versions 0-3, decided by the active controller."""

from typing import TYPE_CHECKING

from tidelog.broker.api.refusals import refusal
from tidelog.controller.messages import (
    CreatePartitions,
    CreatePartitionsResult,
    MorePartitions,
    MorePartitionsResult,
    Response,
)
from tidelog.wire import codec
from tidelog.wire.entities import Entity, make, nested
from tidelog.wire.values import error, millis

if TYPE_CHECKING:
    from tidelog.broker.context import Broker


def message_of(request: Entity) -> CreatePartitions:
    """The controller's message."""
    topics = tuple(
        MorePartitions(
            topic.name,
            topic.count,
            None
            if topic.assignments is None
            else tuple(tuple(assignment.broker_ids) for assignment in topic.assignments),
        )
        for topic in request.topics
    )
    return CreatePartitions(topics, request.validate_only)


def entity_of(broker: "Broker", version: int, request: Entity, response: Response) -> Entity:
    """The reply; a refusal of the whole request becomes every topic's error."""
    if isinstance(response, CreatePartitionsResult):
        results = response.topics
    else:
        code, message = refusal(response)
        results = tuple(MorePartitionsResult(topic.name, code, message) for topic in request.topics)
    response_type = codec.response_class(37, version)
    item_type = nested(response_type, "results")
    return make(
        response_type,
        throttle_time=millis(0),
        results=tuple(
            make(
                item_type,
                name=result.name,
                error_code=error(result.error_code),
                error_message=result.message,
            )
            for result in results
        ),
    )

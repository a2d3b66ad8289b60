"""DeleteTopics (20), versions 1-6, decided by the active controller."""

from typing import TYPE_CHECKING

from tidelog.broker.api.refusals import refusal
from tidelog.controller.messages import (
    DeletedTopic,
    DeleteTopics,
    DeleteTopicsResult,
    Response,
    TopicRef,
)
from tidelog.model import TopicId
from tidelog.wire import codec
from tidelog.wire.entities import Entity, make, nested
from tidelog.wire.values import bytes_of, error, millis, uuid_of

if TYPE_CHECKING:
    from tidelog.broker.context import Broker


def _refs(request: Entity) -> tuple[TopicRef, ...]:
    if hasattr(request, "topic_names"):
        return tuple(TopicRef(name) for name in request.topic_names)
    return tuple(
        TopicRef(topic.name, TopicId(bytes_of(topic.topic_id))) for topic in request.topics
    )


def message_of(request: Entity) -> DeleteTopics:
    """The controller's message."""
    return DeleteTopics(_refs(request))


def entity_of(broker: "Broker", version: int, request: Entity, response: Response) -> Entity:
    """The reply; a refusal of the whole request becomes every topic's error."""
    if isinstance(response, DeleteTopicsResult):
        results = response.topics
    else:
        code, message = refusal(response)
        results = tuple(DeletedTopic(*ref, code, message) for ref in _refs(request))
    response_type = codec.response_class(20, version)
    item_type = nested(response_type, "responses")
    return make(
        response_type,
        throttle_time=millis(0),
        responses=tuple(
            make(
                item_type,
                name=result.name,
                topic_id=uuid_of(result.topic_id),
                error_code=error(result.error_code),
                error_message=result.message,
            )
            for result in results
        ),
    )

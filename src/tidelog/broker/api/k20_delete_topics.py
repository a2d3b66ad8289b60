"""DeleteTopics (20), versions 1-6, decided by the active controller."""

from typing import Final

from tidelog.broker.api.answers import reply
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller.messages import Refused
from tidelog.controller.topic_messages import (
    DeletedTopic,
    DeleteTopics,
    DeleteTopicsResult,
    TopicRef,
)
from tidelog.model import TopicId
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field, make, nested
from tidelog.wire.values import bytes_of, error, uuid_of


def _refs(request: Entity) -> tuple[TopicRef, ...]:
    names = field(request, "topic_names", None)
    if names is not None:
        return tuple(TopicRef(name) for name in names)
    return tuple(
        TopicRef(topic.name, TopicId(bytes_of(topic.topic_id))) for topic in request.topics
    )


def message_of(request: Entity) -> DeleteTopics:
    """The controller's message."""
    return DeleteTopics(_refs(request))


def entity_of(
    node: object, response_type: type, request: Entity, result: DeleteTopicsResult
) -> Entity:
    """The reply."""
    item_type = nested(response_type, "responses")
    return reply(
        response_type,
        responses=tuple(
            make(
                item_type,
                name=topic.name,
                topic_id=uuid_of(topic.topic_id),
                error_code=error(topic.error_code),
                error_message=topic.message,
            )
            for topic in result.topics
        ),
    )


def refusal_of(response_type: type, request: Entity, refused: Refused) -> Entity:
    """A refusal of the whole request becomes every topic's error."""
    topics = (DeletedTopic(*ref, refused.error_code, refused.message) for ref in _refs(request))
    return entity_of(None, response_type, request, DeleteTopicsResult(tuple(topics)))


API: Final = ControllerApi(
    key=ApiKey.DELETE_TOPICS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(1, 6),
    requires=(on(Operation.DELETE, ResourceType.CLUSTER, ResourceType.TOPIC),),
    message=DeleteTopics,
    result=DeleteTopicsResult,
    message_of=message_of,
    entity_of=entity_of,
    refusal_of=refusal_of,
)

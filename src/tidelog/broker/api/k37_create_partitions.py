"""CreatePartitions (37), versions 0-3, decided by the active controller."""

from typing import Final

from tidelog.broker.api.answers import reply
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller.messages import Refused
from tidelog.controller.topic_messages import (
    CreatePartitions,
    CreatePartitionsResult,
    MorePartitions,
    MorePartitionsResult,
)
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, make, nested
from tidelog.wire.values import error


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


def entity_of(
    node: object, response_type: type, request: Entity, result: CreatePartitionsResult
) -> Entity:
    """The reply."""
    item_type = nested(response_type, "results")
    return reply(
        response_type,
        results=tuple(
            make(
                item_type,
                name=topic.name,
                error_code=error(topic.error_code),
                error_message=topic.message,
            )
            for topic in result.topics
        ),
    )


def refusal_of(response_type: type, request: Entity, refused: Refused) -> Entity:
    """A refusal of the whole request becomes every topic's error."""
    topics = (
        MorePartitionsResult(topic.name, refused.error_code, refused.message)
        for topic in request.topics
    )
    return entity_of(None, response_type, request, CreatePartitionsResult(tuple(topics)))


API: Final = ControllerApi(
    key=ApiKey.CREATE_PARTITIONS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 3),
    requires=(on(Operation.ALTER, ResourceType.TOPIC),),
    message=CreatePartitions,
    result=CreatePartitionsResult,
    message_of=message_of,
    entity_of=entity_of,
    refusal_of=refusal_of,
)

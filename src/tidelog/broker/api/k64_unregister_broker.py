"""UnregisterBroker (64), version 0, decided by the active controller."""

from typing import Final

from tidelog.broker.api.answers import refused_at_top, reply
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller.messages import Refused, UnregisterBroker, UnregisterBrokerResult
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity


def message_of(request: Entity) -> UnregisterBroker:
    """The controller's message."""
    return UnregisterBroker(request.broker_id)


def entity_of(
    node: object, response_type: type, request: Entity, result: UnregisterBrokerResult
) -> Entity:
    """The reply."""
    return reply(response_type)


def refusal_of(response_type: type, request: Entity, refused: Refused) -> Entity:
    """The reply with code and message."""
    return refused_at_top(response_type, refused)


API: Final = ControllerApi(
    key=ApiKey.UNREGISTER_BROKER,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 0),
    requires=(on(Operation.ALTER, ResourceType.CLUSTER),),
    message=UnregisterBroker,
    result=UnregisterBrokerResult,
    message_of=message_of,
    entity_of=entity_of,
    refusal_of=refusal_of,
)

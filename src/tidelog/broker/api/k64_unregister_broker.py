"""UnregisterBroker (64), version 0, decided by the active controller."""

from typing import Final

from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller.messages import UnregisterBroker, UnregisterBrokerResult
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity


def message_of(request: Entity) -> UnregisterBroker:
    """The controller's message."""
    return UnregisterBroker(request.broker_id)


API: Final[ControllerApi[object, UnregisterBroker, UnregisterBrokerResult]] = ControllerApi(
    key=ApiKey.UNREGISTER_BROKER,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 0),
    requires=(on(Operation.ALTER, ResourceType.CLUSTER),),
    message=UnregisterBroker,
    result=UnregisterBrokerResult,
    message_of=message_of,
)

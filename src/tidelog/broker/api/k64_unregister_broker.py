"""UnregisterBroker (64), version 0, decided by the active controller."""

from typing import Final

from tidelog.broker.api.answers import answer
from tidelog.broker.api.checks import cluster
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller.messages import UnregisterBroker, UnregisterBrokerResult
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.shapes import Shape

API: Final = ControllerApi(
    key=ApiKey.UNREGISTER_BROKER,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 0),
    requires=(cluster(Operation.ALTER),),
    message=Shape(UnregisterBroker),
    result=answer(UnregisterBrokerResult),
)

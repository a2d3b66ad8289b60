"""UnregisterBroker (64), version 0, decided by the active controller."""

from typing import TYPE_CHECKING

from tidelog.broker.api.refusals import refusal
from tidelog.controller.messages import Response, UnregisterBroker, UnregisterBrokerResult
from tidelog.errors import ErrorCode
from tidelog.wire import codec
from tidelog.wire.entities import Entity, make
from tidelog.wire.values import error, millis

if TYPE_CHECKING:
    from tidelog.broker.context import Broker


def message_of(request: Entity) -> UnregisterBroker:
    """The controller's message."""
    return UnregisterBroker(request.broker_id)


def entity_of(broker: "Broker", version: int, request: Entity, response: Response) -> Entity:
    """The reply."""
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    if not isinstance(response, UnregisterBrokerResult):
        code, message = refusal(response)
    return make(
        codec.response_class(64, version),
        throttle_time=millis(0),
        error_code=error(code),
        error_message=message,
    )

"""AllocateProducerIds (67), version 0: a broker gets a block of producer ids."""

from typing import TYPE_CHECKING, Final

from tidelog.broker.api.refusals import code_of
from tidelog.controller.messages import (
    AllocateProducerIds,
    AllocateProducerIdsResult,
    Refused,
    Response,
)
from tidelog.errors import ErrorCode
from tidelog.wire import codec
from tidelog.wire.entities import Entity, make
from tidelog.wire.values import error, error_of, millis

if TYPE_CHECKING:
    from tidelog.broker.context import Broker

VERSION: Final = 0


def message_of(request: Entity) -> AllocateProducerIds:
    """The controller's message."""
    return AllocateProducerIds(request.broker_id, request.broker_epoch)


def entity_of(broker: "Broker", version: int, request: Entity, response: Response) -> Entity:
    """The reply."""
    block = response if isinstance(response, AllocateProducerIdsResult) else None
    return make(
        codec.response_class(67, version),
        throttle_time=millis(0),
        error_code=error(code_of(response)),
        producer_id_start=block.first_producer_id if block else -1,
        producer_id_len=block.count if block else 0,
    )


def request_of(message: AllocateProducerIds) -> Entity:
    """The wire request."""
    return make(
        codec.request_class(67, VERSION),
        broker_id=message.broker_id,
        broker_epoch=message.broker_epoch,
    )


def response_of(message: AllocateProducerIds, entity: Entity) -> Response:
    """The controller's answer."""
    code = error_of(entity.error_code)
    if code is not ErrorCode.NONE:
        return Refused(code, code.name)
    return AllocateProducerIdsResult(entity.producer_id_start, entity.producer_id_len)

"""InitProducerId (22), versions 0-5: a producer id for an idempotent producer.

Without a transactional id the producer gets a fresh id with epoch 0; giving only one of producer id
and epoch is INVALID_REQUEST, as is an empty transactional id. With one, the answer is
COORDINATOR_NOT_AVAILABLE as long as no transaction coordinator exists.
"""

from tidelog.broker.connections import PendingRequest
from tidelog.broker.context import Broker
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.wire import codec
from tidelog.wire.entities import Entity, field, make
from tidelog.wire.values import error, millis


def handle(broker: Broker, pending: PendingRequest, request: Entity, now: Instant) -> None:
    """Answers at once while the broker's block of ids lasts, else when the next one is here."""
    if request.transactional_id is not None:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if request.transactional_id == "":
            code = ErrorCode.INVALID_REQUEST
        broker.answer(pending, _response(pending, code))
        return
    producer_id, epoch = field(request, "producer_id", -1), field(request, "producer_epoch", -1)
    if (producer_id < 0) != (epoch < 0):
        broker.answer(pending, _response(pending, ErrorCode.INVALID_REQUEST))
        return
    granted = broker.producer_ids.request(pending)
    if granted is not None:
        on_granted(broker, pending, granted)


def on_granted(broker: Broker, pending: PendingRequest, producer_id: int) -> None:
    """An id is there for a request that waited."""
    broker.answer(pending, _response(pending, ErrorCode.NONE, producer_id, 0))


def _response(
    pending: PendingRequest, code: ErrorCode, producer_id: int = -1, epoch: int = -1
) -> Entity:
    return make(
        codec.response_class(22, pending.header.api_version),
        throttle_time=millis(0),
        error_code=error(code),
        producer_id=producer_id,
        producer_epoch=epoch,
    )

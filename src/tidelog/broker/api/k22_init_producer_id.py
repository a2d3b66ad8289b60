"""InitProducerId (22), versions 0-5: a producer id for an idempotent producer.

Without a transactional id the producer gets a fresh id with epoch 0; giving only one of producer id
and epoch is INVALID_REQUEST, as is an empty transactional id. With one, the answer is
COORDINATOR_NOT_AVAILABLE as long as no transaction coordinator exists.
"""

from typing import Final

from tidelog.broker.api.answers import reply
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasProducerIds
from tidelog.broker.connections import RequestContext
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.security.rights import Operation, ResourceType, Right, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field


def handle(node: HasProducerIds, context: RequestContext, request: Entity, now: Instant) -> None:
    """Answers at once while the broker's block of ids lasts, else when the next block has come."""
    if request.transactional_id is not None:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if request.transactional_id == "":
            code = ErrorCode.INVALID_REQUEST
        context.answer(_response(context, code))
        return
    producer_id, epoch = field(request, "producer_id", -1), field(request, "producer_epoch", -1)
    if (producer_id < 0) != (epoch < 0):
        context.answer(_response(context, ErrorCode.INVALID_REQUEST))
        return
    granted = node.producer_ids.request(context)
    if granted is not None:
        on_granted(context, granted)


def on_granted(context: RequestContext, producer_id: int) -> None:
    """The controller granted ids, and one of them goes to a request that waited."""
    context.answer(_response(context, ErrorCode.NONE, producer_id, 0))


def _response(
    context: RequestContext, code: ErrorCode, producer_id: int = -1, epoch: int = -1
) -> Entity:
    return reply(
        context.response_type, error_code=code, producer_id=producer_id, producer_epoch=epoch
    )


API: Final = LocalApi(
    key=ApiKey.INIT_PRODUCER_ID,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 5),
    requires=(
        on(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, condition="transactional id"),
        (
            Right(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, "no transactional id"),
            Right(Operation.WRITE, ResourceType.TOPIC, "no transactional id"),
        ),
    ),
    handle=handle,
)

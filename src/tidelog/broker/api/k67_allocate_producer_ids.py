"""AllocateProducerIds (67), version 0: a broker gets a block of producer ids."""

from typing import Final

from tidelog.broker.api.answers import refused_at_top, reply
from tidelog.broker.api.declaration import CONTROLLERS, ControllerApi, Sending, VersionRange
from tidelog.controller.messages import AllocateProducerIds, AllocateProducerIdsResult
from tidelog.security.rights import CLUSTER_ACTION
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, make


def message_of(request: Entity) -> AllocateProducerIds:
    """The controller's message."""
    return AllocateProducerIds(request.broker_id, request.broker_epoch)


def entity_of(
    node: object, response_type: type, request: Entity, result: AllocateProducerIdsResult
) -> Entity:
    """The reply."""
    return reply(
        response_type, producer_id_start=result.first_producer_id, producer_id_len=result.count
    )


def request_of(request_type: type, message: AllocateProducerIds) -> Entity:
    """The wire request."""
    return make(request_type, broker_id=message.broker_id, broker_epoch=message.broker_epoch)


def result_of(entity: Entity) -> AllocateProducerIdsResult:
    """The block."""
    return AllocateProducerIdsResult(entity.producer_id_start, entity.producer_id_len)


API: Final = ControllerApi(
    key=ApiKey.ALLOCATE_PRODUCER_IDS,
    doc=__doc__,
    listeners=CONTROLLERS,
    versions=VersionRange(0, 0),
    sent_version=0,
    requires=CLUSTER_ACTION,
    message=AllocateProducerIds,
    result=AllocateProducerIdsResult,
    message_of=message_of,
    entity_of=entity_of,
    refusal_of=refused_at_top(producer_id_start=-1, producer_id_len=0),
    sending=Sending(request_of=request_of, result_of=result_of),
)

"""AllocateProducerIds (67), version 0: a broker gets a block of producer ids."""

from typing import Final

from tidelog.broker.api.answers import answer, refused_at_top
from tidelog.broker.api.checks import CLUSTER_ACTION
from tidelog.broker.api.declaration import CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller.messages import AllocateProducerIds, AllocateProducerIdsResult
from tidelog.wire.api import ApiKey
from tidelog.wire.shapes import Shape

RESULT: Final = answer(
    AllocateProducerIdsResult, first_producer_id="producer_id_start", count="producer_id_len"
)

API: Final = ControllerApi(
    key=ApiKey.ALLOCATE_PRODUCER_IDS,
    doc=__doc__,
    listeners=CONTROLLERS,
    versions=VersionRange(0, 0),
    sent_version=0,
    requires=CLUSTER_ACTION,
    message=Shape(AllocateProducerIds),
    result=RESULT,
    refusal_of=refused_at_top(producer_id_start=0, producer_id_len=0),
)

"""ElectLeaders (43), versions 0-2, decided by the active controller.

Version 0 knows only preferred elections, and has no code for the whole request.
"""

from typing import TYPE_CHECKING

from tidelog.broker.api.refusals import code_of, refusal
from tidelog.controller.messages import (
    ElectionResult,
    ElectionType,
    ElectLeaders,
    ElectLeadersResult,
    Response,
)
from tidelog.wire import codec
from tidelog.wire.entities import Entity, field, make, nested
from tidelog.wire.values import error, millis

if TYPE_CHECKING:
    from tidelog.broker.context import Broker


def message_of(request: Entity) -> ElectLeaders:
    """The controller's message."""
    partitions = None
    if request.topic_partitions is not None:
        partitions = tuple(
            (item.topic, tuple(item.partitions)) for item in request.topic_partitions
        )
    return ElectLeaders(field(request, "election_type", ElectionType.PREFERRED), partitions)


def entity_of(broker: "Broker", version: int, request: Entity, response: Response) -> Entity:
    """The reply; a refusal of the whole request becomes every named partition's error too."""
    if isinstance(response, ElectLeadersResult):
        results = response.results
    else:
        code, message = refusal(response)
        results = tuple(
            ElectionResult(item.topic, number, code, message)
            for item in request.topic_partitions or ()
            for number in item.partitions
        )
    response_type = codec.response_class(43, version)
    topic_type = nested(response_type, "replica_election_results")
    partition_type = nested(topic_type, "partition_result")
    by_topic: dict[str, list[Entity]] = {}
    for result in results:
        by_topic.setdefault(result.topic, []).append(
            make(
                partition_type,
                partition_id=result.partition,
                error_code=error(result.error_code),
                error_message=result.message,
            )
        )
    return make(
        response_type,
        throttle_time=millis(0),
        error_code=error(code_of(response)),
        replica_election_results=tuple(
            make(topic_type, topic=topic, partition_result=tuple(partitions))
            for topic, partitions in by_topic.items()
        ),
    )

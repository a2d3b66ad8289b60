"""ElectLeaders (43), versions 0-2, decided by the active controller.

Version 0 knows only preferred elections, and has no code for the whole request.
"""

from typing import Final

from tidelog.broker.api.answers import reply
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller.messages import (
    ElectionResult,
    ElectionType,
    ElectLeaders,
    ElectLeadersResult,
    Refused,
)
from tidelog.errors import ErrorCode
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field, make, nested
from tidelog.wire.values import error


def message_of(request: Entity) -> ElectLeaders:
    """The controller's message."""
    partitions = None
    if request.topic_partitions is not None:
        partitions = tuple(
            (item.topic, tuple(item.partitions)) for item in request.topic_partitions
        )
    return ElectLeaders(field(request, "election_type", ElectionType.PREFERRED), partitions)


def entity_of(
    node: object, response_type: type, request: Entity, result: ElectLeadersResult
) -> Entity:
    """The reply."""
    return _response(response_type, ErrorCode.NONE, result.results)


def refusal_of(response_type: type, request: Entity, refused: Refused) -> Entity:
    """A refusal of the whole request becomes every named partition's error too."""
    results = tuple(
        ElectionResult(item.topic, number, refused.error_code, refused.message)
        for item in request.topic_partitions or ()
        for number in item.partitions
    )
    return _response(response_type, refused.error_code, results)


def _response(response_type: type, code: ErrorCode, results: tuple[ElectionResult, ...]) -> Entity:
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
    return reply(
        response_type,
        error_code=error(code),
        replica_election_results=tuple(
            make(topic_type, topic=topic, partition_result=tuple(partitions))
            for topic, partitions in by_topic.items()
        ),
    )


API: Final = ControllerApi(
    key=ApiKey.ELECT_LEADERS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 2),
    requires=(on(Operation.ALTER, ResourceType.CLUSTER),),
    message=ElectLeaders,
    result=ElectLeadersResult,
    message_of=message_of,
    entity_of=entity_of,
    refusal_of=refusal_of,
)

"""ElectLeaders (43), versions 0-2, decided by the active controller.

Version 0 knows only preferred elections, and has no code for the whole request.
"""

from typing import Final

from tidelog.broker.api.answers import answer, refused_each
from tidelog.broker.api.checks import cluster
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller import messages
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.shapes import Rows, Shape, tuples

MESSAGE: Final = Shape(
    messages.ElectLeaders,
    partitions=tuples("topic_partitions", "topic", "partitions"),
    absent={"election_type": messages.ElectionType.PREFERRED},
)
RESULT: Final = answer(
    messages.ElectLeadersResult,
    results=Rows(
        "replica_election_results.partition_result",
        Shape(messages.ElectionResult, partition="partition_id"),
        by=["topic"],
    ),
)


def _refused(request: Entity, refused: messages.Refused) -> messages.ElectLeadersResult:
    results = (
        messages.ElectionResult(topic, number, refused.error_code, refused.message)
        for topic, numbers in MESSAGE.read(request).partitions or ()
        for number in numbers
    )
    return messages.ElectLeadersResult(tuple(results))


API: Final = ControllerApi(
    key=ApiKey.ELECT_LEADERS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 2),
    requires=(cluster(Operation.ALTER),),
    message=MESSAGE,
    result=RESULT,
    refusal_of=refused_each(RESULT, _refused),
)

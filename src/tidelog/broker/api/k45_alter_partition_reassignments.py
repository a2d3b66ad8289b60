"""AlterPartitionReassignments (45), versions 0-1, decided by the active controller.

Version 0 always allows another replication factor.
"""

from typing import Final

from tidelog.broker.api.answers import Answer, refused_rows, reply
from tidelog.broker.api.checks import cluster
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller import messages
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.shapes import Rows, Shape

_ALLOWS: Final = "allow_replication_factor_change"
MESSAGE: Final = Shape(
    messages.AlterReassignments,
    wishes=Rows("topics.partitions", Shape(messages.Reassignment, topic="name"), by=["name"]),
    allow_factor_change=_ALLOWS,
)
_RESULT: Final = Shape(
    messages.AlterReassignmentsResult,
    results=Rows(
        "responses.partitions", Shape(messages.ReassignmentResult, topic="name"), by=["name"]
    ),
)


def entity_of(
    node: object, response_type: type, request: Entity, result: messages.AlterReassignmentsResult
) -> Entity:
    """The reply, which repeats whether another factor is allowed."""
    values = {_ALLOWS: MESSAGE.read(request).allow_factor_change}
    return reply(response_type, **values, **_RESULT.write(result))


API: Final = ControllerApi(
    key=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 1),
    requires=(cluster(Operation.ALTER),),
    message=MESSAGE,
    result=Answer(_RESULT, entity_of),
    refusal_of=refused_rows({"responses": "topics"}),
)

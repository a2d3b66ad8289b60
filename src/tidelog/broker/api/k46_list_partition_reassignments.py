"""ListPartitionReassignments (46), version 0, answered by the active controller."""

from typing import Final

from tidelog.broker.api.answers import answer, refused_rows
from tidelog.broker.api.checks import cluster
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller import messages
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.shapes import Rows, Shape, tuples

MESSAGE: Final = Shape(
    messages.ListReassignments, partitions=tuples("topics", "name", "partition_indexes")
)
_ROW: Final = Shape(
    messages.ReassignmentInProgress,
    topic="name",
    adding="adding_replicas",
    removing="removing_replicas",
)
RESULT: Final = answer(
    messages.ListReassignmentsResult, found=Rows("topics.partitions", _ROW, by=["name"])
)

API: Final = ControllerApi(
    key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 0),
    requires=(cluster(Operation.DESCRIBE),),
    message=MESSAGE,
    result=RESULT,
    refusal_of=refused_rows({"topics": "topics", "partitions": "partition_indexes"}),
)

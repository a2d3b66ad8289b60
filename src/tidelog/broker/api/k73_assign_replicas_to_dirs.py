"""AssignReplicasToDirs (73), version 0: a broker reports in which directories its replicas
are, or that they are lost.
"""

from typing import Final

from tidelog.broker.api.answers import answer, refused_at_top
from tidelog.broker.api.checks import CLUSTER_ACTION
from tidelog.broker.api.declaration import CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller import messages
from tidelog.wire.api import ApiKey
from tidelog.wire.shapes import Rows, Shape

_PATH: Final = "directories.topics.partitions"
_BY: Final = ("id_", "topic_id")
MESSAGE: Final = Shape(
    messages.AssignReplicas,
    assignments=Rows(_PATH, Shape(messages.ReplicaDirectory, directory_id="id_"), _BY),
)
RESULT: Final = answer(
    messages.AssignReplicasResult,
    results=Rows(_PATH, Shape(messages.AssignedReplica, directory_id="id_"), _BY),
)

API: Final = ControllerApi(
    key=ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    doc=__doc__,
    listeners=CONTROLLERS,
    versions=VersionRange(0, 0),
    sent_version=0,
    requires=CLUSTER_ACTION,
    message=MESSAGE,
    result=RESULT,
    refusal_of=refused_at_top(directories=()),
)

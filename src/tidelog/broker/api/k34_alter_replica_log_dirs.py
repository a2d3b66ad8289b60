"""AlterReplicaLogDirs (34), versions 1-2: moves replicas of this broker to other log directories.

The answer comes when the moves have begun (`replication/moves.py`); DescribeLogDirs shows how far
they are. A replica that this broker does not have is refused with REPLICA_NOT_AVAILABLE, and is
made in that directory if it comes. Tools that assign partitions to brokers and directories at once
send this request again until the replica is here.
"""

from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import InHandler
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasReplicas
from tidelog.broker.connections import RequestContext
from tidelog.broker.long_answers import Pieces
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.limits import LOG_CREATION_WORK
from tidelog.model import TopicPartition
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import ArrayWriter, Entity, nested

_ALTER: Final = on(Operation.ALTER, ResourceType.CLUSTER)


class Node(HasReplicas, Protocol):
    """What AlterReplicaLogDirs needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> Pieces:
    """Begins one move after the other, if the client may alter the cluster."""
    is_allowed = context.access.meets(_ALTER, "")
    topics = ArrayWriter(context.response_type, "results")
    for wanted in request.dirs:
        for topic in wanted.topics:
            partitions = ArrayWriter(nested(context.response_type, "results"), "partitions")
            for number in topic.partitions:
                key = TopicPartition(topic.name, number)
                code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                if is_allowed:
                    code = node.replicas.moves.request(key, wanted.path, now)
                partitions.add(partition_index=number, error_code=code)
                yield LOG_CREATION_WORK
            topics.add(topic_name=topic.name, partitions=partitions.array())
    context.answer(reply(context.response_type, results=topics.array()))


API: Final = LocalApi(
    key=ApiKey.ALTER_REPLICA_LOG_DIRS,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(1, 2),
    requires=(InHandler(rights=_ALTER),),
    handle=handle,
)

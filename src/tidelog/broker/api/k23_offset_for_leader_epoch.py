"""OffsetForLeaderEpoch (23), versions 2-4: where a leader epoch ends (KIP-320)."""

from typing import Final

from tidelog.broker.api.answers import reply
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasReplicas
from tidelog.broker.connections import RequestContext
from tidelog.env.instant import Instant
from tidelog.model import EpochEndOffset
from tidelog.replication.messages import EpochEndQuery, EpochEndResult
from tidelog.security.rights import Operation, ResourceType, Right
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.shapes import Place, Shape

_QUERY: Final = Shape(EpochEndQuery, partition="partition")
_END: Final = Shape(EpochEndOffset)
_RESULT: Final = Shape(EpochEndResult, partition="partition", end=Place(_END.read, _END.write))


def handle(node: HasReplicas, context: RequestContext, request: Entity, now: Instant) -> None:
    """Answers from the epoch caches of the partitions led here."""
    topics = []
    for topic in request.topics:
        outer = {"topic": topic.topic}
        queries = [_QUERY.read(partition, outer) for partition in topic.partitions]
        results = node.replicas.end_offsets_for_epochs(queries)
        topics.append({"topic": topic.topic, "partitions": [*map(_RESULT.write, results)]})
    context.answer(reply(context.response_type, topics=topics))


API: Final = LocalApi(
    key=ApiKey.OFFSET_FOR_LEADER_EPOCH,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(2, 4),
    requires=(
        (
            Right(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
            Right(Operation.DESCRIBE, ResourceType.TOPIC),
        ),
    ),
    handle=handle,
)

"""OffsetForLeaderEpoch (23), versions 2-4: where a leader epoch ends (KIP-320)."""

from typing import Final

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import Each
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasReplicas
from tidelog.broker.connections import RequestContext
from tidelog.broker.long_answers import Pieces
from tidelog.env.instant import Instant
from tidelog.limits import PARTITION_ANSWER_WORK
from tidelog.model import EpochEndOffset
from tidelog.replication.messages import EpochEndQuery, EpochEndResult
from tidelog.security.rights import Operation, ResourceType, Right
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import ArrayWriter, Entity, nested
from tidelog.wire.shapes import Place, Shape

_QUERY: Final = Shape(EpochEndQuery, partition="partition")
_END: Final = Shape(EpochEndOffset)
_RESULT: Final = Shape(EpochEndResult, partition="partition", end=Place(_END.read, _END.write))


def handle(node: HasReplicas, context: RequestContext, request: Entity, now: Instant) -> Pieces:
    """Answers from the epoch caches of the partitions led here, one after the other."""
    topics = ArrayWriter(context.response_type, "topics")
    for topic in request.topics:
        partitions = ArrayWriter(nested(context.response_type, "topics"), "partitions")
        for row in topic.partitions:
            query = _QUERY.read(row, {"topic": topic.topic})
            partitions.add(**_RESULT.write(node.replicas.end_offset_for_epoch(query)))
            yield PARTITION_ANSWER_WORK
        topics.add(topic=topic.topic, partitions=partitions.array())
    context.answer(reply(context.response_type, topics=topics.array()))


API: Final = LocalApi(
    key=ApiKey.OFFSET_FOR_LEADER_EPOCH,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(2, 4),
    requires=(
        Each(
            rights=(
                Right(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
                Right(Operation.DESCRIBE, ResourceType.TOPIC),
            ),
            rows="topics",
            name="topic",
            renamed={"leader_epoch": -1},
        ),
    ),
    handle=handle,
)

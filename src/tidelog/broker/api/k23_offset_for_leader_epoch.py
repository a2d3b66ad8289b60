"""OffsetForLeaderEpoch (23), versions 2-4: where a leader epoch ends (KIP-320)."""

from typing import Final

from tidelog.broker.api.answers import reply
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasReplicas
from tidelog.broker.connections import RequestContext
from tidelog.env.instant import Instant
from tidelog.replication.messages import EpochEndQuery
from tidelog.security.rights import Operation, ResourceType, Right
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, make, nested
from tidelog.wire.values import error


def handle(node: HasReplicas, context: RequestContext, request: Entity, now: Instant) -> None:
    """Answers from the epoch caches of the partitions led here."""
    response_type = context.response_type
    topic_type = nested(response_type, "topics")
    partition_type = nested(topic_type, "partitions")
    topics = []
    for topic in request.topics:
        results = node.replicas.end_offsets_for_epochs(
            [
                EpochEndQuery(
                    topic.topic,
                    partition.partition,
                    partition.current_leader_epoch,
                    partition.leader_epoch,
                )
                for partition in topic.partitions
            ]
        )
        partitions = tuple(
            make(
                partition_type,
                error_code=error(result.error_code),
                partition=result.partition,
                leader_epoch=result.end.leader_epoch,
                end_offset=result.end.end_offset,
            )
            for result in results
        )
        topics.append(make(topic_type, topic=topic.topic, partitions=partitions))
    context.answer(reply(response_type, topics=tuple(topics)))


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

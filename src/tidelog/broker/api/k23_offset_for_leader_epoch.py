"""OffsetForLeaderEpoch (23), versions 2-4: where a leader epoch ends (KIP-320)."""

from tidelog.broker.connections import PendingRequest
from tidelog.broker.context import Broker
from tidelog.env.instant import Instant
from tidelog.replication.messages import EpochEndQuery
from tidelog.wire import codec
from tidelog.wire.entities import Entity, make, nested
from tidelog.wire.values import error, millis


def handle(broker: Broker, pending: PendingRequest, request: Entity, now: Instant) -> None:
    """Answers from the epoch caches of the partitions led here."""
    response_type = codec.response_class(23, pending.header.api_version)
    topic_type = nested(response_type, "topics")
    partition_type = nested(topic_type, "partitions")
    topics = []
    for topic in request.topics:
        results = broker.replicas.end_offsets_for_epochs(
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
    broker.answer(pending, make(response_type, throttle_time=millis(0), topics=tuple(topics)))

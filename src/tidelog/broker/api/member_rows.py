"""What the answers about members of consumer groups and of share groups have in common."""

from tidelog.broker.api.answers import reply
from tidelog.groups.consumer_records import IdPartition
from tidelog.groups.messages import ConsumerGroupHeartbeatResult, ShareGroupHeartbeatResult
from tidelog.model import TopicId
from tidelog.wire.entities import Entity
from tidelog.wire.values import millis


def heartbeat_reply(
    response_type: type, result: ConsumerGroupHeartbeatResult | ShareGroupHeartbeatResult
) -> Entity:
    """The answer to a heartbeat; without an assignment while the member knows its own."""
    assigned = result.assigned
    return reply(
        response_type,
        error_code=result.error_code,
        error_message=result.error_message,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval=millis(result.heartbeat_interval_ms),
        assignment=None if assigned is None else {"topic_partitions": rows_of(assigned)},
    )


def rows_of(partitions: tuple[IdPartition, ...]) -> list[dict[str, object]]:
    """Partitions by topic."""
    topics: dict[TopicId, list[int]] = {}
    for topic_id, number in partitions:
        topics.setdefault(topic_id, []).append(number)
    return [{"topic_id": each, "partitions": numbers} for each, numbers in topics.items()]

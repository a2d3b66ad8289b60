"""What all requests to share coordinators have in common: to whom, in which form, and when again.

The coordinator of a share partition leads the partition of `__share_group_state` that its name
belongs to. All these requests (`share_calls.py`) and their answers have rows of partitions by
topic. A row with an error of `NOT_YET` is asked again after `RETRY_MS`, or when the metadata
changes.
"""

from collections.abc import Iterable
from typing import Any, Final

from tidelog.errors import ErrorCode
from tidelog.groups.consumer_records import IdPartition
from tidelog.metadata.image import MetadataImage
from tidelog.model import SHARES_TOPIC, TopicId
from tidelog.rsm.placement import leader_of
from tidelog.shares.records import SharePartition
from tidelog.wire.entities import Entity, make
from tidelog.wire.values import bytes_of, error_of

RETRY_MS: Final = 50
NOT_YET: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NETWORK_EXCEPTION,
)
"""NETWORK_EXCEPTION stands for a request without an answer."""


def share_coordinator(image: MetadataImage, share: SharePartition) -> int | None:
    """The broker that keeps the state of a share partition; `None` before the topic exists."""
    return leader_of(image, SHARES_TOPIC, share.key)


def request_of(
    request_type: type, group_id: str, rows: Iterable[tuple[TopicId, dict[str, Any]]]
) -> Entity:
    """A request about partitions of these topics."""
    topics: dict[TopicId, list[dict[str, Any]]] = {}
    for topic_id, row in rows:
        topics.setdefault(topic_id, []).append(row)
    return make(
        request_type,
        group_id=group_id,
        topics=[{"topic_id": it, "partitions": partitions} for it, partitions in topics.items()],
    )


def answers_of(
    entity: Entity, asked: Iterable[IdPartition]
) -> list[tuple[IdPartition, ErrorCode, Entity | None]]:
    """What an answer says about each partition that was asked about: an error, and its row."""
    rows = {
        IdPartition(TopicId(bytes_of(topic.topic_id)), row.partition): row
        for topic in entity.results
        for row in topic.partitions
    }
    found = [(each, rows.get(each)) for each in asked]
    return [
        (each, ErrorCode.UNKNOWN_SERVER_ERROR if row is None else error_of(row.error_code), row)
        for each, row in found
    ]

"""Offsets of partitions: by time, at both ends, and as each replica has them.

A broker answers a consumer's ListOffsets for what it leads. The debugging consumer (replica id -2)
is answered by every replica, from its own log.

Source: KIP-207 (OFFSET_NOT_AVAILABLE), KIP-320 (leader epochs).
"""

from collections.abc import Mapping
from typing import Any, Final

from tidelog.client.core.calls import Call, fetch_call, request
from tidelog.errors import ErrorCode
from tidelog.model import NO_EPOCH, ZERO_TOPIC_ID, TopicPartition
from tidelog.wire.api import ApiKey
from tidelog.wire.fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from tidelog.wire.values import error_of

CONSUMER: Final = -1
DEBUGGING_CONSUMER: Final = -2
_NEWEST_BY_NAME: Final = 12
"""Later versions of Fetch name topics by id."""


def list_offsets(
    wanted: Mapping[TopicPartition, tuple[int, int]],
    *,
    read_committed: bool = False,
    replica_id: int = CONSUMER,
) -> Call[Any]:
    """Offsets of (timestamp, leader epoch) for each partition."""
    rows = {
        tp: {"timestamp": timestamp, "current_leader_epoch": epoch}
        for tp, (timestamp, epoch) in wanted.items()
    }
    return request(
        ApiKey.LIST_OFFSETS,
        replica_id=replica_id,
        isolation_level=READ_COMMITTED if read_committed else READ_UNCOMMITTED,
        topics=by_topic(rows),
    )


def read_offsets(answer: Any) -> dict[TopicPartition, tuple[ErrorCode, int]]:
    """The error and the offset of each partition."""
    return {
        TopicPartition(topic.name, int(row.partition_index)): (
            error_of(row.error_code),
            int(row.offset),
        )
        for topic in answer.topics
        for row in topic.partitions
    }


def high_watermarks(ends: Mapping[TopicPartition, int]) -> Call[FetchResponse]:
    """A debugging consumer's fetch at the end of a replica's logs: the answer has no records, but
    the replica's high watermarks."""
    partitions = [
        FetchPartition(tp.topic, ZERO_TOPIC_ID, tp.partition, NO_EPOCH, end, NO_EPOCH, -1, 0)
        for tp, end in ends.items()
    ]
    wanted = FetchRequest(DEBUGGING_CONSUMER, -1, 0, 0, 0, READ_UNCOMMITTED, 0, -1, partitions, [])
    return fetch_call(wanted, _NEWEST_BY_NAME)


def by_topic(rows: Mapping[TopicPartition, Mapping[str, object]]) -> list[dict[str, Any]]:
    """The `topics` of a request that names partitions, each with these fields beside its index."""
    topics: dict[str, dict[str, Any]] = {}
    for tp, fields in rows.items():
        topic = topics.setdefault(tp.topic, {"name": tp.topic, "partitions": []})
        topic["partitions"].append({"partition_index": tp.partition, **fields})
    return list(topics.values())

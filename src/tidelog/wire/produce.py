"""Produce (API 0) as version-free values, and its hand-packed codec."""

from typing import NamedTuple

from tidelog.errors import ErrorCode
from tidelog.model import Endpoint, TopicId
from tidelog.wire.fetch import LeaderHint


class ProducePartition(NamedTuple):
    """Records for one partition."""

    topic: str
    topic_id: TopicId
    partition: int
    records: memoryview | None
    """Record batches as they arrived; valid only while the request is handled."""


class ProduceRequest(NamedTuple):
    """One Produce request of any version."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    partitions: list[ProducePartition]


class RecordError(NamedTuple):
    """Why one record made its batch fail (v8+)."""

    batch_index: int
    message: str | None


class ProducedPartition(NamedTuple):
    """The answer for one partition."""

    topic: str
    topic_id: TopicId
    partition: int
    error_code: ErrorCode
    base_offset: int
    log_append_time_ms: int
    """-1 for CreateTime topics."""
    log_start_offset: int
    record_errors: tuple[RecordError, ...] = ()
    error_message: str | None = None
    current_leader: LeaderHint | None = None


class ProduceResponse(NamedTuple):
    """One Produce response of any version."""

    partitions: list[ProducedPartition]
    throttle_ms: int = 0
    node_endpoints: list[tuple[int, Endpoint, str | None]] = []

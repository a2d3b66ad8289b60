"""Offsets of replicas, asked of each replica itself.

Every replica, leader or not, answers a debugging consumer (replica id -2): ListOffsets tells
where its log begins and ends, a Fetch at the end of its log, which returns no records, tells its
high watermark.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tidelog.errors import ErrorCode
from tidelog.model import NO_EPOCH, ZERO_TOPIC_ID
from tidelog.testing.asking import VERSIONS, Address, Asking, request, request_type
from tidelog.testing.descriptions import NodeDescription, ReplicaDescription
from tidelog.testing.wire_client import Unreachable
from tidelog.wire import fetch
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make, nested
from tidelog.wire.values import error_of

_DEBUGGING_CONSUMER: Final = -2
_LATEST: Final = -1
_EARLIEST: Final = -2

Partition = tuple[str, int]


def ask_replica_logs(
    asking: Asking, node: NodeDescription, partitions: Sequence[Partition]
) -> dict[Partition, ReplicaDescription]:
    """One broker's own offsets of partitions that it hosts; -1 where it does not answer."""
    address = (node.host, node.port)
    starts: Mapping[Partition, int] = {}
    ends: Mapping[Partition, int] = {}
    marks: Mapping[Partition, int] = {}
    try:
        starts = _list_offsets(asking, address, partitions, _EARLIEST)
        ends = _list_offsets(asking, address, partitions, _LATEST)
        marks = _high_watermarks(asking, address, ends)
    except Unreachable:
        # What is not known stays -1: a node that has just died is no error of the question.
        pass
    return {
        key: ReplicaDescription(
            node.node_id, starts.get(key, -1), marks.get(key, -1), ends.get(key, -1)
        )
        for key in partitions
    }


def _list_offsets(
    asking: Asking, address: Address, partitions: Sequence[Partition], timestamp: int
) -> dict[Partition, int]:
    topic_type = nested(request_type(ApiKey.LIST_OFFSETS), "topics")
    partition_type = nested(topic_type, "partitions")
    by_topic: dict[str, list[Any]] = {}
    for name, partition in partitions:
        row = make(
            partition_type,
            partition_index=partition,
            current_leader_epoch=NO_EPOCH,
            timestamp=timestamp,
        )
        by_topic.setdefault(name, []).append(row)
    response = asking.node(
        address,
        request(
            ApiKey.LIST_OFFSETS,
            replica_id=_DEBUGGING_CONSUMER,
            isolation_level=fetch.READ_UNCOMMITTED,
            topics=tuple(
                make(topic_type, name=name, partitions=tuple(rows))
                for name, rows in by_topic.items()
            ),
        ),
    )
    return {
        (str(topic.name), int(row.partition_index)): int(row.offset)
        for topic in response.topics
        for row in topic.partitions
        if error_of(row.error_code) is ErrorCode.NONE
    }


def _high_watermarks(
    asking: Asking, address: Address, ends: Mapping[Partition, int]
) -> dict[Partition, int]:
    question = fetch.FetchRequest(
        replica_id=_DEBUGGING_CONSUMER,
        replica_epoch=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=0,
        isolation_level=fetch.READ_UNCOMMITTED,
        session_id=0,
        session_epoch=-1,
        partitions=[_at_end(key, end) for key, end in ends.items()],
        forgotten=[],
    )
    version = VERSIONS[ApiKey.FETCH]
    frame = asking.guarded(
        address,
        lambda connection: connection.call_raw(
            fetch.pack_request(
                version, connection.next_correlation_id(), "tidelog-admin", question
            ),
            asking.timeout_s,
        ),
    )
    _, response = fetch.parse_response(version, frame)
    return {
        (row.topic, row.partition): row.high_watermark
        for row in response.partitions
        if row.error_code is ErrorCode.NONE
    }


def _at_end(key: Partition, end: int) -> fetch.FetchPartition:
    name, partition = key
    return fetch.FetchPartition(
        topic=name,
        topic_id=ZERO_TOPIC_ID,
        partition=partition,
        current_leader_epoch=NO_EPOCH,
        fetch_offset=end,
        last_fetched_epoch=NO_EPOCH,
        log_start_offset=-1,
        max_bytes=0,
    )

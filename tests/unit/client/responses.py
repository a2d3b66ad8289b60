"""Responses of the administrator's APIs, as the scripted brokers take them."""

from collections.abc import Sequence
from typing import Any

from tidelog.errors import ErrorCode
from tidelog.model import Uuid
from tidelog.wire.values import uuid_of

TOPIC_ID = Uuid(bytes(range(16)))


def cluster(*nodes: tuple[int, str, int, bool]) -> Any:
    """DescribeCluster with (id, host, port, fenced)."""
    return {
        "endpoint_type": 1,
        "cluster_id": "c",
        "controller_id": 1,
        "brokers": [
            {"broker_id": i, "host": host, "port": port, "is_fenced": fenced}
            for i, host, port, fenced in nodes
        ],
    }


def topic_page(
    name: str,
    partitions: Sequence[int],
    *,
    more: int | None = None,
    code: ErrorCode = ErrorCode.NONE,
) -> Any:
    """DescribeTopicPartitions with one topic; `more` is the next page's partition."""
    rows = [
        {
            "partition_index": index,
            "leader_id": 1,
            "leader_epoch": 4,
            "replica_nodes": [1, 2],
            "isr_nodes": [1],
            "eligible_leader_replicas": [2],
            "last_known_elr": None,
            "offline_replicas": [2],
        }
        for index in partitions
    ]
    topic = {"error_code": code, "name": name, "topic_id": uuid_of(TOPIC_ID), "partitions": rows}
    cursor = None if more is None else {"topic_name": name, "partition_index": more}
    return {"topics": [topic], "next_cursor": cursor}


def moving(name: str, number: int, *, adding: Sequence[int], removing: Sequence[int]) -> Any:
    """ListPartitionReassignments with one partition."""
    row = {
        "partition_index": number,
        "replicas": [*adding, *removing],
        "adding_replicas": [*adding],
        "removing_replicas": [*removing],
    }
    return {"topics": [{"name": name, "partitions": [row]}]}


def created(name: str, code: ErrorCode, message: str | None = None) -> Any:
    """CreateTopics for one topic."""
    topic = {
        "name": name,
        "topic_id": None,
        "error_code": code,
        "error_message": message,
        "topic_config_error_code": 0,
        "num_partitions": 1,
        "replication_factor": 1,
        "configs": None,
    }
    return {"topics": [topic]}


def offsets(name: str, found: dict[int, tuple[ErrorCode, int]]) -> Any:
    """ListOffsets with (error, offset) by partition."""
    unsaid = {"timestamp": -1, "leader_epoch": -1}
    rows = [
        {"partition_index": index, "error_code": code, "offset": offset, **unsaid}
        for index, (code, offset) in found.items()
    ]
    return {"topics": [{"name": name, "partitions": rows}]}


def deleted_records(name: str, partition: int, code: ErrorCode, low_watermark: int) -> Any:
    """DeleteRecords for one partition."""
    row = {"partition_index": partition, "low_watermark": low_watermark, "error_code": code}
    return {"topics": [{"name": name, "partitions": [row]}]}

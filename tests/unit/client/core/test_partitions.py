"""Which broker leads which partition, and what is missing from an answer."""

from typing import Any

import pytest

from tidelog.client.core.errors import TopicError, TryAgain
from tidelog.client.core.partitions import Leader, read_metadata
from tidelog.client.core.values import Address
from tidelog.errors import ErrorCode
from tidelog.model import TopicId, TopicPartition
from tidelog.wire.api import ApiKey
from tidelog.wire.codec import response_class
from tidelog.wire.entities import make
from tidelog.wire.values import error, millis, uuid_of

TOPIC_ID = TopicId(bytes(range(16)))


def answer(version: int, code: ErrorCode = ErrorCode.NONE) -> Any:
    """Topic `t` with a partition that broker 1 leads and one without a leader."""
    rows = [
        {
            "error_code": error(0),
            "partition_index": partition,
            "leader_id": leader,
            "leader_epoch": 7,
            "replica_nodes": [],
            "isr_nodes": [],
            "offline_replicas": [],
        }
        for partition, leader in ((0, 1), (1, -1))
    ]
    topic = {
        "error_code": error(code),
        "name": "t",
        "topic_id": uuid_of(TOPIC_ID),
        "is_internal": False,
        "partitions": rows,
        "topic_authorized_operations": 0,
    }
    values = {
        "throttle_time": millis(0),
        "brokers": [{"node_id": 1, "host": "a", "port": 9092, "rack": None}],
        "cluster_id": "c",
        "controller_id": 1,
        "topics": [topic],
        "cluster_authorized_operations": 0,
    }
    return make(response_class(ApiKey.METADATA, version), **values)


def test_leaders_are_found_by_partition() -> None:
    metadata = read_metadata(answer(12))
    assert metadata.partitions_of("t") == [0, 1]
    assert metadata.topic_ids() == {"t": TOPIC_ID}
    leader = metadata.leader_of(TopicPartition("t", 0))
    assert leader == Leader(TOPIC_ID, 1, 7)
    assert metadata.address_of(leader.node_id) == Address("a", 9092)


def test_old_versions_have_neither_ids_nor_epochs() -> None:
    leader = read_metadata(answer(1)).leaders[TopicPartition("t", 0)]
    assert leader == Leader(TopicId(bytes(16)), 1, -1)


def test_what_is_missing_may_be_there_later() -> None:
    metadata = read_metadata(answer(12))
    with pytest.raises(TryAgain, match="`t-1` has no leader"):
        metadata.leader_of(TopicPartition("t", 1))
    with pytest.raises(TryAgain, match="`t-2` is not in"):
        metadata.leader_of(TopicPartition("t", 2))
    with pytest.raises(TryAgain, match="broker 9 is not in"):
        metadata.address_of(9)


def test_a_topic_without_metadata_is_named_with_its_code() -> None:
    with pytest.raises(TopicError, match="topic `t`: UNKNOWN_TOPIC_OR_PARTITION") as caught:
        read_metadata(answer(12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert caught.value.topic == "t"

"""ListOffsets: special timestamps by version, and errors for single partitions."""

from typing import Any

import pytest

from tests.unit.broker.api.test_k00_produce import produce
from tests.unit.broker.one_node import Wire
from tidelog.broker.api import k02_list_offsets
from tidelog.errors import ErrorCode
from tidelog.replication.messages import ListOffsetsResult
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import field
from tidelog.wire.values import error_of, millis

VERSIONS = range(1, 12)
LATEST, EARLIEST, LARGEST, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
EARLIEST_PENDING_UPLOAD = -6


def list_offsets(
    wire: Wire,
    version: int,
    *queries: tuple[str, int, int],
    current_leader_epoch: int = -1,
    replica_id: int = -1,
) -> list[Any]:
    """The answers to (topic, partition, timestamp) queries, one topic entry a query."""
    response = wire.call(
        ApiKey.LIST_OFFSETS,
        version,
        replica_id=replica_id,
        isolation_level=0,
        timeout=millis(1000),
        topics=tuple(
            {
                "name": topic,
                "partitions": (
                    {
                        "partition_index": partition,
                        "current_leader_epoch": current_leader_epoch,
                        "timestamp": timestamp,
                    },
                ),
            }
            for topic, partition, timestamp in queries
        ),
    )
    assert [topic.name for topic in response.topics] == [topic for topic, _, _ in queries]
    return [topic.partitions[0] for topic in response.topics]


def code(answer: Any) -> ErrorCode:
    return error_of(answer.error_code)


@pytest.mark.parametrize("version", VERSIONS)
def test_both_ends_and_a_time_between(wire, version):
    produce(wire, 9)
    produce(wire, 9)
    earliest, latest, middle, beyond = list_offsets(
        wire, version, ("t", 0, EARLIEST), ("t", 1, LATEST), ("u", 0, LATEST), ("v", 0, LATEST)
    )
    assert (code(earliest), earliest.offset, earliest.timestamp) == (ErrorCode.NONE, 0, -1)
    assert (code(latest), latest.offset) == (ErrorCode.NONE, 0)
    assert code(middle) is code(beyond) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (end,) = list_offsets(wire, version, ("t", 0, LATEST))
    assert (code(end), end.offset, end.timestamp) == (ErrorCode.NONE, 4, -1)
    if version >= 4:
        assert end.leader_epoch == 0
    (found,) = list_offsets(wire, version, ("t", 0, 1_700_000_000_001))
    assert (code(found), found.offset, found.timestamp) == (ErrorCode.NONE, 1, 1_700_000_000_001)
    (missing,) = list_offsets(wire, version, ("t", 0, 1_700_000_000_002))
    assert (code(missing), missing.offset, missing.timestamp) == (ErrorCode.NONE, -1, -1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("timestamp", "since", "offset"),
    [
        (LARGEST, 7, 1),
        (EARLIEST_LOCAL, 8, 0),
        (LATEST_TIERED, 9, -1),
        (EARLIEST_PENDING_UPLOAD, 11, -1),
    ],
)
def test_special_timestamps_came_with_versions(wire, version, timestamp, since, offset):
    produce(wire, 9)
    (answer,) = list_offsets(wire, version, ("t", 0, timestamp))
    if version >= since:
        assert (code(answer), answer.offset) == (ErrorCode.NONE, offset)
    else:
        assert (code(answer), answer.offset) == (ErrorCode.UNSUPPORTED_VERSION, -1)


@pytest.mark.parametrize("timestamp", [-7, -(2**63)])
def test_timestamps_that_mean_nothing_here(wire, timestamp):
    (answer,) = list_offsets(wire, 11, ("t", 0, timestamp))
    assert code(answer) is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_asked_for_twice(wire, version):
    answers = list_offsets(wire, version, ("t", 0, LATEST), ("t", 0, EARLIEST), ("t", 1, LATEST))
    assert [code(answer) for answer in answers] == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
    ]


@pytest.mark.parametrize("version", range(4, 12))
def test_the_leader_epoch_is_checked(wire, version):
    (ahead,) = list_offsets(wire, version, ("t", 0, LATEST), current_leader_epoch=1)
    assert code(ahead) is ErrorCode.UNKNOWN_LEADER_EPOCH
    (equal,) = list_offsets(wire, version, ("t", 0, LATEST), current_leader_epoch=0)
    assert code(equal) is ErrorCode.NONE


def test_a_partition_that_is_led_elsewhere(node, wire):
    node.add_broker(2)
    wire.create_topic("far", replicas=(2,))
    (answer,) = list_offsets(wire, 9, ("far", 0, LATEST))
    assert code(answer) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert field(answer, "offset", None) == -1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_leader_that_is_not_settled_answers_a_code_that_the_client_knows(version):
    """OFFSET_NOT_AVAILABLE came with version 5 (KIP-207)."""
    result = ListOffsetsResult("t", 3, ErrorCode.OFFSET_NOT_AVAILABLE)
    answer = k02_list_offsets._known_to(version, result)
    expected = ErrorCode.OFFSET_NOT_AVAILABLE if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE
    assert answer.error_code is expected

"""DescribeQuorum, on both listeners and in every version."""

import pytest

from tests.unit.broker.api.wire_turns import answered, request, versions
from tests.unit.broker.one_node import WALL_MS
from tidelog.broker.api import k55_describe_quorum as module
from tidelog.controller.messages import Refused
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import field
from tidelog.wire.values import error_of

KEY = ApiKey.DESCRIBE_QUORUM


def topics(topic="__cluster_metadata", *indexes):
    partitions = tuple({"partition_index": index} for index in indexes or (0,))
    return ({"topic_name": topic, "partitions": partitions},)


@pytest.mark.parametrize("version", versions(KEY))
def test_the_quorum_on_both_listeners(node, wire, controller_wire, version):
    for asked in (wire, controller_wire):
        response = asked.call(KEY, version, topics=topics())
        assert error_of(response.error_code) is ErrorCode.NONE
        (topic,) = response.topics
        (partition,) = topic.partitions
        assert topic.topic_name == "__cluster_metadata"
        assert error_of(partition.error_code) is ErrorCode.NONE
        assert (partition.leader_id, partition.leader_epoch) == (1, 1)
        assert partition.high_watermark > 0
        (voter,) = partition.current_voters
        assert (voter.replica_id, voter.log_end_offset) == (1, partition.high_watermark)
        assert field(voter, "last_caught_up_timestamp", WALL_MS) >= WALL_MS
        assert partition.observers == ()
        if version >= 2:
            (listed,) = response.nodes
            (end,) = listed.listeners
            assert (listed.node_id, end.name, end.host, end.port) == (
                1,
                "CONTROLLER",
                "host1",
                9093,
            )


@pytest.mark.parametrize("version", versions(KEY))
def test_other_topics_and_partitions_are_unknown(wire, version):
    for asked in (topics("t"), topics("__cluster_metadata", 1)):
        response = wire.call(KEY, version, topics=asked)
        (partition,) = response.topics[0].partitions
        assert error_of(partition.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert partition.current_voters == ()


@pytest.mark.parametrize("version", versions(KEY))
def test_no_leader_could_be_asked(version):
    asked = request(KEY, version, topics=topics())
    entity = module.API.refuse(version, asked, Refused(ErrorCode.REQUEST_TIMED_OUT, "absent"))
    response = answered(KEY, version, entity)
    assert error_of(response.error_code) is ErrorCode.REQUEST_TIMED_OUT
    assert response.topics == ()

"""DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets, and DeleteGroups of a
share group: what administrators see, and what the share coordinators know afterwards."""

import pytest

from tests.unit.broker.api.share_client import beat, call, one_group_node, set_level, settled_group
from tests.unit.broker.api.sharer import fill
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of


def described(wire, *topics, group_id="g"):
    """The offset of each partition; without topics of all that the group knows."""
    rows = [{"topic_name": name, "partitions": numbers} for name, numbers in topics] or None
    groups = [{"group_id": group_id, "topics": rows}]
    response = wire.call(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, groups=groups)
    (group,) = response.groups
    assert error_of(group.error_code) is ErrorCode.NONE
    return {
        (topic.topic_name, each.partition_index): each.start_offset
        for topic in group.topics
        for each in topic.partitions
    }


def altered(wire, group_id="g", **topics):
    """The codes of the partitions, or that of the whole."""
    rows = [
        {
            "topic_name": name,
            "partitions": [
                {"partition_index": number, "start_offset": offset}
                for number, offset in offsets.items()
            ],
        }
        for name, offsets in topics.items()
    ]
    response = wire.call(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, group_id=group_id, topics=rows)
    if error_of(response.error_code) is not ErrorCode.NONE:
        return error_of(response.error_code)
    return {
        (topic.topic_name, each.partition_index): error_of(each.error_code)
        for topic in response.responses
        for each in topic.partitions
    }


def forgotten(wire, *names, group_id="g"):
    topics = [{"topic_name": name} for name in names]
    response = wire.call(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, group_id=group_id, topics=topics)
    if error_of(response.error_code) is not ErrorCode.NONE:
        return error_of(response.error_code)
    return {each.topic_name: error_of(each.error_code) for each in response.responses}


def known(wire):
    """How many share partitions the share coordinators know."""
    return sum(len(each.entries) for each in wire.node.broker.shares.coordinators())


def test_offsets_of_a_group():
    wire = settled_group(one_group_node())
    assert described(wire) == {("t", 0): -1, ("t", 1): -1}
    row = {"partition": 1, "state_epoch": 2, "leader_epoch": 0, "start_offset": 5}
    call(wire, ApiKey.WRITE_SHARE_GROUP_STATE, 0, {**row, "state_batches": []})
    assert described(wire) == {("t", 0): -1, ("t", 1): 5}
    found = described(wire, ("t", [1, 9]), ("none", [0]))
    assert found == {("t", 1): 5, ("t", 9): -1, ("none", 0): -1}
    assert described(wire, group_id="none") == {}


def lags(wire, version=1):
    groups = [{"group_id": "g", "topics": None}]
    response = wire.call(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, version, groups=groups)
    (topic,) = response.groups[0].topics
    return [(error_of(each.error_code), each.lag) for each in topic.partitions]


def test_the_lag_of_a_group():
    wire = settled_group(one_group_node())
    fill(wire.node, 1, 9)
    assert lags(wire) == [(ErrorCode.NONE, -1), (ErrorCode.NONE, -1)]
    row = {"partition": 1, "state_epoch": 2, "leader_epoch": 0, "start_offset": 5}
    row = {**row, "state_batches": [], "delivery_complete_count": 3}
    call(wire, ApiKey.WRITE_SHARE_GROUP_STATE, 1, row)
    assert lags(wire) == [(ErrorCode.NONE, -1), (ErrorCode.NONE, 1)]


def test_offsets_are_moved_without_members():
    wire = settled_group(one_group_node())
    assert altered(wire, t={0: 7}) is ErrorCode.NON_EMPTY_GROUP
    beat(wire, "m", -1)
    found = altered(wire, t={0: 7, 9: 7}, none={0: 1})
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found == {("t", 0): ErrorCode.NONE, ("t", 9): unknown, ("none", 0): unknown}
    assert described(wire) == {("t", 0): 7, ("t", 1): -1}
    assert altered(wire, "new", t={1: 3}) == {("t", 1): ErrorCode.NONE}
    assert described(wire, group_id="new") == {("t", 1): 3}
    assert altered(wire, "", t={1: 3}) is ErrorCode.INVALID_GROUP_ID


def test_a_topic_is_forgotten_without_members():
    wire = settled_group(one_group_node())
    assert forgotten(wire, "t") is ErrorCode.NON_EMPTY_GROUP
    beat(wire, "m", -1)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert forgotten(wire, "t", "none") == {"t": ErrorCode.NONE, "none": unknown}
    assert (known(wire), described(wire)) == (0, {})
    assert forgotten(wire, "t") == {"t": unknown}
    assert forgotten(wire, "t", group_id="none") is ErrorCode.GROUP_ID_NOT_FOUND
    assert forgotten(wire, "t", group_id="") is ErrorCode.INVALID_GROUP_ID


def test_a_deleted_group_leaves_no_state():
    wire = settled_group(one_group_node())

    def deleted():
        response = wire.call(ApiKey.DELETE_GROUPS, 2, groups_names=("g",))
        return error_of(response.results[0].error_code)

    assert deleted() is ErrorCode.NON_EMPTY_GROUP
    beat(wire, "m", -1)
    assert deleted() is ErrorCode.NONE
    assert known(wire) == 0
    assert deleted() is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("ask", [altered, forgotten])
def test_it_is_refused_while_the_feature_is_off(ask):
    node = one_group_node()
    set_level(node, 0)
    assert ask(node.client()) is ErrorCode.UNSUPPORTED_VERSION

"""ShareGroupHeartbeat: a member has its partitions when their states are initialised."""

from tests.unit.broker.api.share_client import assigned_of, beat, call, one_group_node, set_level
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, to_millis


def initialized(node):
    return sum(len(each.entries) for each in node.broker.shares.coordinators())


def test_partitions_come_when_they_are_initialised():
    node = one_group_node(group_share_heartbeat_interval_ms="700")
    wire = node.client()
    first = beat(wire, "m", 0, "t")
    assert error_of(first.error_code) is ErrorCode.NONE
    assert (first.member_id, first.member_epoch, assigned_of(first)) == ("m", 2, [])
    assert to_millis(first.heartbeat_interval) == 700
    node.run_until(lambda: initialized(node) == 2)
    node.settle()
    second = beat(wire, "m", first.member_epoch)
    assert (second.member_epoch, assigned_of(second)) == (3, [0, 1])
    assert assigned_of(beat(wire, "m", 3)) is None
    summary = call(
        wire, ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, 1, {"partition": 1, "leader_epoch": -1}
    )
    assert (summary[1].state_epoch, summary[1].start_offset) == (2, -1)


def test_a_member_that_leaves_is_one_no_more():
    node = one_group_node()
    wire = node.client()
    beat(wire, "m", 0, "t")
    assert beat(wire, "m", -1).member_epoch == -1
    assert error_of(beat(wire, "m", 1).error_code) is ErrorCode.UNKNOWN_MEMBER_ID


def test_it_is_refused_while_the_feature_is_off():
    node = one_group_node()
    wire = node.client()
    set_level(node, 0)
    assert error_of(beat(wire, "m", 0, "t").error_code) is ErrorCode.UNSUPPORTED_VERSION

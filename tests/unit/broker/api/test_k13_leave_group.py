"""LeaveGroup on a node, in every version."""

import pytest

from tests.unit.broker.api.group_client import join, one_node
from tests.unit.broker.api.wire_turns import versions
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

VERSIONS = versions(ApiKey.LEAVE_GROUP)


@pytest.mark.parametrize("version", [v for v in VERSIONS if v < 3])
def test_one_member_leaves(version):
    wire = one_node().client()
    joined = join(wire, 5)
    for expected in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):
        answer = wire.call(ApiKey.LEAVE_GROUP, version, group_id="g", member_id=joined.member_id)
        assert error_of(answer.error_code) is expected


@pytest.mark.parametrize("version", [v for v in VERSIONS if v >= 3])
def test_several_members_leave(version):
    wire = one_node().client()
    joined = join(wire, 5, group_instance_id="x")
    names = (("who", None), ("", "x"))
    leavers = [{"member_id": each, "group_instance_id": name} for each, name in names]
    answer = wire.call(ApiKey.LEAVE_GROUP, version, group_id="g", members=leavers)
    assert error_of(answer.error_code) is ErrorCode.NONE
    assert [
        (each.member_id, each.group_instance_id, error_of(each.error_code))
        for each in answer.members
    ] == [("who", None, ErrorCode.UNKNOWN_MEMBER_ID), ("", "x", ErrorCode.NONE)]
    gone = wire.call(ApiKey.HEARTBEAT, 4, group_id="g", generation_id=1, member_id=joined.member_id)
    assert error_of(gone.error_code) is ErrorCode.UNKNOWN_MEMBER_ID

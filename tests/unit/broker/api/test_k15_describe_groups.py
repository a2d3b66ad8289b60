"""DescribeGroups on a node, in every version."""

import pytest

from tests.unit.broker.api.group_client import join, one_node, sync
from tests.unit.broker.api.wire_turns import versions
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of


def described(wire, version, *groups, operations=False):
    values = {"groups": groups, "include_authorized_operations": operations}
    return wire.call(ApiKey.DESCRIBE_GROUPS, version, **values).groups


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
def test_a_group_and_what_is_none(version):
    wire = one_node().client()
    joined = join(wire, 5)
    sync(wire, 3, joined)
    group, nothing = described(wire, version, "g", "nothing")
    assert error_of(group.error_code) is ErrorCode.NONE
    assert (group.group_id, group.group_state) == ("g", "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    (member,) = group.members
    assert (member.member_id, member.client_id) == (joined.member_id, "test")
    assert bytes(member.member_metadata) == b"meta" and bytes(member.member_assignment) == b"all"
    assert (nothing.group_id, nothing.group_state) == ("nothing", "Dead")
    assert error_of(nothing.error_code) is (
        ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE
    )


def test_every_operation_is_allowed_to_who_asks():
    wire = one_node().client()
    join(wire, 5)
    answers = {
        asked: described(wire, 6, "g", "nothing", operations=asked) for asked in (True, False)
    }
    assert [row.authorized_operations for row in answers[True]] == [3400, -(2**31)]
    assert {row.authorized_operations for row in answers[False]} == {-(2**31)}


def test_without_a_coordinator(wire):
    (group,) = described(wire, 5, "g")
    assert error_of(group.error_code) is ErrorCode.NOT_COORDINATOR
    assert described(wire, 5) == ()

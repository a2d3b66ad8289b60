"""Goal: administrators see groups as they are, and delete only those without members."""

import pytest

from tests.unit.groups.rig import T0, T1, Rig, commit, join, leave
from tidelog.errors import ErrorCode
from tidelog.groups.group_state import GroupState
from tidelog.groups.messages import DeleteGroup, DescribeGroup, ListedGroup
from tidelog.groups.records import decode


@pytest.fixture
def rig():
    return Rig()


def test_groups_of_all_kinds_are_listed(rig):
    rig.group_of("a", group_id="stable")
    rig.ask(commit(1, group_id="simple"))
    (member,) = rig.group_of("a", group_id="left")
    rig.ask(leave(member, group_id="left"))
    rig.join_new(group_id="asked")
    assert sorted(rig.coordinator.list_groups(), key=lambda each: each.group_id) == [
        ListedGroup("asked", "", GroupState.EMPTY),
        ListedGroup("left", "consumer", GroupState.EMPTY),
        ListedGroup("simple", "", GroupState.EMPTY),
        ListedGroup("stable", "consumer", GroupState.STABLE),
    ]


def test_a_stable_group_is_described_with_its_assignment(rig):
    first, second = rig.group_of("a", "b")
    found = rig.ask(DescribeGroup("g"))
    assert (found.error_code, found.state) == (ErrorCode.NONE, GroupState.STABLE)
    assert (found.protocol_type, found.protocol_name) == ("consumer", "range")
    assert {each.member_id: each.member_assignment for each in found.members} == {
        first: f"for {first}".encode(),
        second: f"for {second}".encode(),
    }
    assert {(each.client_id, each.client_host) for each in found.members} == {("a", "/host")}
    rig.send(join(first))
    found = rig.ask(DescribeGroup("g"))
    assert found.state is GroupState.PREPARING
    assert (found.protocol_name, found.members[0].member_metadata) == ("", b"")
    assert found.members[0].member_assignment == f"for {first}".encode()


def test_what_does_not_exist_is_dead(rig):
    found = rig.ask(DescribeGroup("nothing"))
    assert (found.error_code, found.state) == (ErrorCode.GROUP_ID_NOT_FOUND, GroupState.DEAD)
    assert rig.ask(DeleteGroup("nothing")).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert rig.ask(DeleteGroup("")).error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_without_members_is_deleted_as_a_whole(rig):
    (member,) = rig.group_of("a")
    for partition in (T0, T1):
        rig.ask(commit(3, member, 1, partition=partition))
    assert rig.ask(DeleteGroup("g")).error_code is ErrorCode.NON_EMPTY_GROUP
    assert rig.committed() == {T0: 3, T1: 3}
    rig.ask(leave(member))
    number = rig.send(DeleteGroup("g"))
    assert number not in rig.answers
    rig.commit()
    assert rig.answers[number].error_code is ErrorCode.NONE
    assert [decode(each).value for each in rig.partition.batches[-1].records] == [None] * 3
    assert rig.committed() == {}
    assert rig.ask(DeleteGroup("g")).error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_that_was_never_written_is_in_use(rig):
    rig.send(join(rig.join_new()))
    assert rig.ask(DeleteGroup("g")).error_code is ErrorCode.NON_EMPTY_GROUP


def test_deleting_a_group_withdraws_member_ids_that_were_given_out(rig):
    given = rig.join_new()
    assert rig.ask(DeleteGroup("g")).error_code is ErrorCode.NONE
    assert rig.ask(join(given)).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert rig.ask(DescribeGroup("g")).state is GroupState.DEAD

"""Goal: questions go to the coordinator, again while there is none; errors that stay are raised."""

import pytest

from tests.unit.client.scripted_groups import ScriptedGroup
from tidelog.client.admin import AdminClient, AdminError
from tidelog.client.groups import GroupLag, GroupListing, GroupMember, GroupProgress, _partitions_of
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition

O0, O1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def group():
    found = ScriptedGroup()
    with found.brokers:
        yield found


@pytest.fixture
def groups(group):
    with AdminClient([group.brokers.bootstrap_servers]) as admin:
        yield admin.groups


def test_all_groups(groups):
    assert groups.list() == [GroupListing("billing", "Stable", "classic", "consumer", 1)]


def test_a_group_with_its_progress(groups):
    found = groups.describe("billing")
    assert (found.state, found.protocol_type, found.protocol) == ("Stable", "consumer", "range")
    assert found.members == (GroupMember("m-1", None, "app", "/10.0.0.1", (O1,)),)
    assert found.progress == (
        GroupProgress("orders", 0, 10, 10, ""),
        GroupProgress("orders", 1, 4, 9, "m-1"),
    )
    assert [each.lag for each in found.progress] == [0, 5]


def test_a_consumer_group(group, groups):
    group.state, group.group_type = "Dead", "consumer"
    found = groups.describe("billing")
    assert (found.state, found.group_type, found.protocol) == ("Reconciling", "consumer", "uniform")
    assert found.members == (GroupMember("m-1", "i", "app", "/10.0.0.1", (O1,)),)
    assert [each.member_id for each in found.progress] == ["", "m-1"]


def test_a_partition_that_is_gone_has_no_lag(group, groups):
    group.committed[7] = 3
    found = groups.describe("billing").progress[-1]
    assert (found.partition, found.log_end_offset, found.lag) == (7, -1, -1)


def test_a_group_that_does_not_exist(group, groups):
    group.state = "Dead"
    with pytest.raises(AdminError) as caught:
        groups.describe("billing")
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("times", [1, 3])
def test_a_coordinator_that_is_loading_is_asked_again(group, groups, times):
    group.not_yet = times
    groups.delete("billing")
    assert group.not_yet == 0


def test_offsets_are_reset(group, groups):
    groups.reset("billing", {O0: 3, O1: 5})
    assert group.committed == {0: 3, 1: 5}
    group.code = ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(AdminError, match="reset the offsets of group `billing`"):
        groups.reset("billing", {O0: 1})
    assert group.committed == {0: 3, 1: 5}


def test_partitions_of_a_topic(groups):
    assert groups.partitions_of("orders") == [O0, O1]
    with pytest.raises(AdminError, match="find `nothing`: the topic does not exist"):
        groups.partitions_of("nothing")


@pytest.mark.parametrize("assignment", [b"", b"\x00\x01", b"\x00\x01\x7f\xff\xff\xff", b"what"])
def test_other_bytes_than_an_assignment_name_no_partitions(assignment):
    assert _partitions_of(assignment) == ()


def test_how_far_all_groups_are_behind(group, groups):
    assert groups.lags() == [GroupLag("billing", "Stable", 5)]
    group.committed[7] = 3
    assert groups.lags() == [GroupLag("billing", "Stable", 5)]

"""Goal: votes, leaders and static members follow Kafka's rules."""

import pytest

from tidelog.errors import ErrorCode
from tidelog.groups.classic_group import ClassicGroup, Member
from tidelog.groups.group_state import GroupState
from tidelog.groups.messages import GroupProtocol


def member(member_id, *protocols, instance_id=None):
    return Member(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id="c",
        client_host="/h",
        session_timeout_ms=10,
        rebalance_timeout_ms=20,
        protocols=tuple(GroupProtocol(each, each.encode()) for each in protocols),
    )


def group(*members):
    found = ClassicGroup("g", GroupState.PREPARING, protocol_type="consumer")
    for each in members:
        found.add(each)
    return found


@pytest.mark.parametrize(
    ("preferences", "chosen"),
    [
        (["a b", "a b"], "a"),
        (["a b", "b a", "b a"], "b"),
        # What not all support does not count, whatever they prefer.
        (["x a b", "y b a", "z b a"], "b"),
        (["a", "b a", "b a"], "a"),
        # A tie goes to the member that came first.
        (["a b", "b a"], "a"),
    ],
)
def test_the_protocol_with_most_votes_wins(preferences, chosen):
    found = group(*(member(f"m{n}", *each.split()) for n, each in enumerate(preferences)))
    assert found.vote() == chosen


def test_who_fits_in():
    found = group(member("m", "a", "b"), member("n", "b", "c"))
    as_protocols = {each: (GroupProtocol(each, b""),) for each in "abc"}
    assert found.supports("consumer", as_protocols["b"])
    assert not found.supports("consumer", as_protocols["a"])
    assert not found.supports("connect", as_protocols["b"])
    assert not found.supports("consumer", ())
    empty = ClassicGroup("g")
    assert empty.supports("connect", as_protocols["c"])
    assert not empty.supports("", as_protocols["c"])


def test_only_a_member_that_has_joined_leads():
    first, second = member("m", "a"), member("n", "a")
    found = group(first, second)
    assert not found.elect_leader()
    second.join_reply = 1
    assert found.elect_leader() and found.leader_id == "n"
    first.join_reply = 2
    # It stays the leader while it joins.
    assert found.elect_leader() and found.leader_id == "n"
    found.remove(second)
    assert found.leader_id == "m"


def test_a_replaced_static_member_is_fenced():
    old = member("m-1", "a", instance_id="i")
    found = group(old)
    found.leader_id = "m-1"
    found.replace(old, "m-2")
    assert found.leader_id == "m-2"
    assert found.fault_of("m-2", "i") is ErrorCode.NONE
    assert found.fault_of("m-1", "i") is ErrorCode.FENCED_INSTANCE_ID
    assert found.fault_of("m-1", None) is ErrorCode.UNKNOWN_MEMBER_ID
    assert found.fault_of("m-2", "j") is ErrorCode.UNKNOWN_MEMBER_ID
    found.check()


def test_a_group_comes_back_from_its_record():
    found = group(member("m", "a", "b", instance_id="i"), member("n", "b", "a"))
    found.state, found.generation_id, found.leader_id = GroupState.STABLE, 7, "m"
    found.protocol_name = "b"
    value = found.value({"m": b"all"}, 1000)
    back = ClassicGroup.of("g", value)
    assert back.value({"m": b"all"}, 1000) == value
    assert back.members["m"].assignment == b"all"
    assert back.members["n"].protocols == (GroupProtocol("b", b"b"),)
    assert back.state is GroupState.STABLE
    back.check()
    assert ClassicGroup.of("g", None).state is GroupState.EMPTY


@pytest.mark.parametrize(
    "spoil",
    [
        lambda each: setattr(each, "leader_id", "x"),
        lambda each: each.static_members.clear(),
        lambda each: setattr(each, "state", GroupState.EMPTY),
        lambda each: setattr(each.members["m"], "sync_reply", 1),
    ],
)
def test_the_check_can_fail(spoil):
    found = group(member("m", "a", instance_id="i"))
    found.check()
    spoil(found)
    with pytest.raises(AssertionError):
        found.check()

"""Goal: SyncGroup, Heartbeat and LeaveGroup answer as Kafka's do, in every state."""

import pytest

from tests.unit.groups.rig import DELAY_MS, T0, Rig, commit, heartbeat, join, leave, sync
from tidelog.errors import ErrorCode
from tidelog.groups.messages import (
    CommitOffsets,
    DeleteGroup,
    DeleteGroupResult,
    JoinGroupResult,
    LeaveGroup,
    Leaver,
    SyncGroup,
)
from tidelog.groups.records import CommittedOffset, GroupRecord, decode
from tidelog.rsm.coordinator import Refused


@pytest.fixture
def rig():
    return Rig()


def joined(rig, *names):
    """Members of generation 1 whose leader has not assigned; the leader first."""
    members = [rig.join_new(name) for name in names]
    for each in members:
        rig.send(join(each))
    rig.advance(2 * DELAY_MS)
    return members


@pytest.mark.parametrize("ask", [heartbeat, sync])
def test_strangers_are_refused(rig, ask):
    assert rig.ask(ask("who", 1)).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    (member,) = rig.group_of("a")
    assert rig.ask(ask("who", 1)).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert rig.ask(ask(member, 0)).error_code is ErrorCode.ILLEGAL_GENERATION
    assert rig.ask(ask(member, 2)).error_code is ErrorCode.ILLEGAL_GENERATION
    assert rig.ask(ask(member, 1, group_id="")).error_code is ErrorCode.INVALID_GROUP_ID


def test_members_wait_for_the_leader(rig):
    leader, member = joined(rig, "a", "b")
    waiting = rig.send(sync(member, 1))
    assert rig.ask(heartbeat(leader, 1)).error_code is ErrorCode.NONE
    assert waiting not in rig.answers
    own = rig.ask(sync(leader, 1, ((leader, b"1"), (member, b"2"))))
    assert own.assignment == b"1"
    assert rig.answers[waiting].assignment == b"2"
    # Later it is repeated.
    assert rig.ask(sync(member, 1)).assignment == b"2"
    assert rig.ask(heartbeat(member, 1)).error_code is ErrorCode.NONE


def test_who_was_not_assigned_anything_gets_nothing(rig):
    leader, member = joined(rig, "a", "b")
    waiting = rig.send(sync(member, 1))
    rig.ask(sync(leader, 1, ((leader, b"all"),)))
    assert rig.answers[waiting].assignment == b""


def test_the_protocol_is_checked_where_it_is_named(rig):
    leader, _ = joined(rig, "a", "b")
    for protocol_type, name in (("connect", "range"), ("consumer", "sticky")):
        request = SyncGroup("g", 1, leader, None, protocol_type, name, ())
        assert rig.ask(request).error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    request = SyncGroup("g", 1, leader, None, "consumer", "range", ((leader, b"x"),))
    assert rig.ask(request).error_code is ErrorCode.NONE


def test_a_rebalance_ends_the_wait_for_an_assignment(rig):
    _, member = joined(rig, "a", "b")
    waiting = rig.send(sync(member, 1))
    rig.send(join(rig.join_new("c")))
    assert rig.answers[waiting].error_code is ErrorCode.REBALANCE_IN_PROGRESS
    assert rig.ask(sync(member, 1)).error_code is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_assignment_of_a_generation_that_is_over_is_not_given_out(rig):
    leader, member = joined(rig, "a", "b")
    waiting = rig.send(sync(member, 1))
    rig.send(sync(leader, 1, ((member, b"old"),)))
    assert waiting not in rig.answers
    rig.send(join(leader, protocols=join().protocols * 2))
    assert rig.answers[waiting].error_code is ErrorCode.REBALANCE_IN_PROGRESS
    rig.commit()
    assert rig.coordinator.groups["g"].members[member].assignment == b""


def test_an_assignment_that_is_too_large_begins_a_rebalance(rig):
    leader, member = joined(rig, "a", "b")
    waiting = rig.send(sync(member, 1))
    rig.partition.max_batch_bytes = 1000
    result = rig.ask(sync(leader, 1, ((leader, b"x" * 2000),)))
    assert result.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert rig.answers[waiting].error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert rig.ask(heartbeat(member, 1)).error_code is ErrorCode.REBALANCE_IN_PROGRESS


def test_who_never_asks_for_the_assignment_is_removed(rig):
    """Else the group would be stable, and its part would be read by none."""
    leader, member = joined(rig, "a", "b")
    rig.ask(sync(leader, 1, ((leader, b"all"),)))
    for _ in range(12):
        rig.advance(5_000)
        for each in (leader, member):
            rig.send(heartbeat(each, 1))
    assert set(rig.coordinator.groups["g"].members) == {leader}


def test_silence_ends_a_session_and_heartbeats_renew_it(rig):
    first, second = rig.group_of("a", "b")
    for _ in range(4):
        rig.advance(9_000)
        assert rig.ask(heartbeat(first, 1)).error_code in (
            ErrorCode.NONE,
            ErrorCode.REBALANCE_IN_PROGRESS,
        )
    assert set(rig.coordinator.groups["g"].members) == {first}
    assert rig.ask(heartbeat(second, 1)).error_code is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("grace_ms", "within_ms"), [(500, 3_833), (0, 10_000)])
def test_a_member_whose_connection_ended_has_a_third_of_its_session_and_the_grace(
    grace_ms, within_ms
):
    rig = Rig(disconnect_grace_ms=grace_ms)
    first, second = rig.group_of("a", "b")
    rig.coordinator.on_disconnected("g", second, rig.now)
    rig.advance(within_ms - 1)
    assert rig.ask(heartbeat(first, 1)).error_code is ErrorCode.NONE
    assert set(rig.coordinator.groups["g"].members) == {first, second}
    rig.advance(1)
    assert set(rig.coordinator.groups["g"].members) == {first}


def test_a_heartbeat_makes_up_for_a_connection_that_ended(rig):
    (member,) = rig.group_of("a")
    rig.coordinator.on_disconnected("g", member, rig.now)
    rig.advance(3_000)
    assert rig.ask(heartbeat(member, 1)).error_code is ErrorCode.NONE
    rig.advance(9_999)
    assert rig.ask(heartbeat(member, 1)).error_code is ErrorCode.NONE


def test_the_end_of_a_connection_gives_no_more_time_than_there_was(rig):
    first, second = rig.group_of("a", "b")
    rig.advance(9_000)
    rig.send(heartbeat(first, 1))
    rig.coordinator.on_disconnected("g", second, rig.now)
    rig.coordinator.on_disconnected("g", "who", rig.now)
    rig.coordinator.on_disconnected("none", second, rig.now)
    rig.advance(1_000)
    assert set(rig.coordinator.groups["g"].members) == {first}


def test_static_members_and_those_that_wait_are_not_hastened(rig):
    """A static member may be restarted within its session, and a rebalance has its own deadline."""
    number = rig.send(join(group_instance_id="i"))
    rig.advance(2 * DELAY_MS)
    fixed = rig.answers[number].member_id
    rig.ask(sync(fixed, 1, ((fixed, b"all"),), instance_id="i"))
    rig.coordinator.on_disconnected("g", fixed, rig.now)
    rig.advance(9_000)
    assert set(rig.coordinator.groups["g"].members) == {fixed}
    rig.send(join(rig.join_new("b")))
    waiting = rig.coordinator.groups["g"]
    (other,) = set(waiting.members) - {fixed}
    rig.coordinator.on_disconnected("g", other, rig.now)
    rig.send(heartbeat(fixed, 1, instance_id="i"))
    rig.advance(9_000)
    assert other in rig.coordinator.groups["g"].members


def test_a_member_that_leaves_makes_the_others_join_again(rig):
    first, second = rig.group_of("a", "b")
    result = rig.ask(leave(second))
    assert result.leavers == ((Leaver(second), ErrorCode.NONE),)
    assert rig.ask(heartbeat(first, 1)).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    assert rig.answers[rig.send(join(first))].generation_id == 2


def test_the_last_one_to_leave_leaves_an_empty_group_in_the_log(rig):
    (member,) = rig.group_of("a")
    number = rig.send(leave(member))
    assert number not in rig.answers
    rig.commit()
    assert rig.answers[number].error_code is ErrorCode.NONE
    last = decode(rig.partition.batches[-1].records[-1])
    assert isinstance(last, GroupRecord) and last.value is not None
    assert (last.value.generation_id, last.value.members) == (2, ())
    assert rig.ask(heartbeat(member, 2)).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_one_has_left_also_while_too_many_wait_for_replicas(rig):
    """Its former member could commit, and an empty group could not be deleted."""
    (member,) = rig.group_of("a")
    rig.coordinator._kernel._max_pending = 1
    rig.send(commit(1, group_id="other"))
    refused = rig.answers[rig.send(leave(member))]
    assert refused == Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    rig.commit()
    assert rig.ask(commit(7, member, 1)) == Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    assert rig.committed() == {}
    assert rig.ask(DeleteGroup("g")) == DeleteGroupResult(ErrorCode.NONE)


def test_who_leaves_while_waiting_is_answered(rig):
    first, _ = rig.group_of("a", "b")
    waiting = rig.send(join(first, protocols=join().protocols * 2))
    rig.ask(leave(first))
    assert rig.answers[waiting] == JoinGroupResult(ErrorCode.UNKNOWN_MEMBER_ID)


def test_who_leaves_while_waiting_for_its_assignment_is_answered(rig):
    _, member = joined(rig, "a", "b")
    waiting = rig.send(sync(member, 1))
    rig.ask(leave(member))
    assert rig.answers[waiting] == Refused(ErrorCode.UNKNOWN_MEMBER_ID)


def test_member_ids_that_were_given_out_can_leave(rig):
    (first,) = rig.group_of("a")
    second = rig.join_new("b")
    number = rig.send(join(first))
    assert number not in rig.answers
    assert rig.ask(leave(second)).leavers[0][1] is ErrorCode.NONE
    assert rig.answers[number].generation_id == 2


def test_the_protocol_is_looked_at_before_the_state(rig):
    (first,) = rig.group_of("a")
    rig.send(join(rig.join_new("b")))
    asked = SyncGroup("g", 1, first, None, "consumer", "odd", ())
    assert rig.ask(asked).error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    right = asked._replace(protocol_name="range")
    assert rig.ask(right).error_code is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_id_that_is_given_back_makes_a_stable_group_rebalance(rig):
    (first,) = rig.group_of("a")
    leaver = Leaver(rig.join_new("b"), "an instance")
    assert rig.ask(LeaveGroup("g", (leaver,))).leavers == ((leaver, ErrorCode.NONE),)
    assert rig.ask(heartbeat(first, 1)).error_code is ErrorCode.REBALANCE_IN_PROGRESS


def test_each_leaver_has_an_answer_of_its_own(rig):
    number = rig.send(join(group_instance_id="x"))
    rig.advance(DELAY_MS)
    member = rig.answers[number].member_id
    leavers = (Leaver("who"), Leaver("", "y"), Leaver("other", "x"), Leaver("", "x"))
    result = rig.ask(LeaveGroup("g", leavers))
    assert [code for _, code in result.leavers] == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.NONE,
    ]
    assert rig.ask(heartbeat(member, 1)).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_leaving_what_does_not_exist(rig):
    rig.ask(CommitOffsets("", -1, "", None, ((T0, CommittedOffset(3)),)))
    assert rig.ask(leave("who", group_id="")).error_code is ErrorCode.INVALID_GROUP_ID
    answer = rig.ask(leave("who", group_id="nothing"))
    assert answer.error_code is ErrorCode.NONE
    assert [code for _, code in answer.leavers] == [ErrorCode.UNKNOWN_MEMBER_ID]

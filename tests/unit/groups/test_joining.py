"""Goal: JoinGroup, in every state, does what Kafka's coordinator does."""

import pytest

from tests.unit.groups.rig import DELAY_MS, Rig, heartbeat, join, leave, sync
from tidelog.errors import ErrorCode
from tidelog.groups.group_state import GroupState
from tidelog.groups.messages import GroupProtocol, JoinGroupResult
from tidelog.groups.records import GroupRecord, decode
from tidelog.limits import MAX_MEMBER_IDS_GIVEN_OUT

OTHER = (GroupProtocol("range", b"other"),)


@pytest.fixture
def rig():
    return Rig()


def test_the_first_member_gets_an_id_and_then_the_group(rig):
    member = rig.join_new("client")
    assert member.startswith("client-") and len(member) == len("client-") + 36
    number = rig.send(join(member))
    assert number not in rig.answers
    rig.advance(DELAY_MS)
    result = rig.answers[number]
    assert result.error_code is ErrorCode.NONE
    assert (result.generation_id, result.leader, result.member_id) == (1, member, member)
    assert (result.protocol_type, result.protocol_name) == ("consumer", "range")
    assert [each.member_id for each in result.members] == [member]
    assert rig.coordinator.groups["g"].state is GroupState.COMPLETING


def test_older_clients_join_at_once(rig):
    number = rig.send(join(requires_member_id=False))
    rig.advance(DELAY_MS)
    assert rig.answers[number].error_code is ErrorCode.NONE


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (join(group_id=""), ErrorCode.INVALID_GROUP_ID),
        (join(session_timeout_ms=99), ErrorCode.INVALID_SESSION_TIMEOUT),
        (join(session_timeout_ms=1_800_001), ErrorCode.INVALID_SESSION_TIMEOUT),
        (join("who"), ErrorCode.UNKNOWN_MEMBER_ID),
        (join(protocols=()), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (join(protocol_type=""), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_what_is_refused_leaves_no_group(rig, request_, code):
    assert rig.ask(request_).error_code is code
    assert not rig.coordinator.groups
    assert not rig.partition.batches


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (GroupProtocol("x", b""),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_those_who_do_not_fit_in_are_refused(rig, values, code):
    rig.group_of("a")
    assert rig.ask(join(**values)).error_code is code


def test_a_first_rebalance_waits_for_those_who_come_meanwhile():
    rig = Rig(initial_rebalance_delay_ms=1000)
    numbers = []
    for index in range(3):
        numbers.append(rig.send(join(rig.join_new(f"c{index}"))))
        rig.advance(700)
    assert not any(number in rig.answers for number in numbers)
    rig.advance(2000)
    results = [rig.answers[number] for number in numbers]
    assert {each.generation_id for each in results} == {1}
    assert sorted(len(each.members) for each in results) == [0, 0, 3]


def test_a_first_rebalance_does_not_wait_for_longer_than_its_members_allow():
    rig = Rig(initial_rebalance_delay_ms=1000)
    first = rig.send(join(rig.join_new(), rebalance_timeout_ms=2500))
    for _ in range(10):
        rig.advance(500)
        rig.send(join(rig.join_new(), rebalance_timeout_ms=2500))
        if first in rig.answers:
            break
    assert rig.now <= 3000


def test_a_new_member_makes_the_others_join_again(rig):
    (first,) = rig.group_of("a")
    second = rig.join_new("b")
    number = rig.send(join(second))
    assert rig.ask(heartbeat(first, 1)).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    again = rig.send(join(first))
    assert rig.answers[number].generation_id == rig.answers[again].generation_id == 2
    assert rig.answers[again].leader == first


def test_a_member_that_does_not_join_again_is_removed(rig):
    first, second = rig.group_of("a", "b")
    number = rig.send(join(first, protocols=OTHER))
    for _ in range(8):
        rig.advance(7_000)
        assert rig.ask(heartbeat(second, 1)).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    assert number not in rig.answers
    rig.advance(4_001)
    assert rig.answers[number].generation_id == 2
    assert [each.member_id for each in rig.answers[number].members] == [first]
    assert rig.ask(heartbeat(second, 2)).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_without_changes_gets_the_generation_again(rig):
    leader, member = rig.group_of("a", "b")
    result = rig.ask(join(member))
    assert (result.generation_id, result.leader, result.members) == (1, leader, ())
    assert rig.ask(heartbeat(leader, 1)).error_code is ErrorCode.NONE


def test_the_leader_that_joins_again_begins_a_rebalance(rig):
    leader, member = rig.group_of("a", "b")
    number = rig.send(join(leader))
    assert number not in rig.answers
    assert rig.ask(heartbeat(member, 1)).error_code is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_with_other_protocols_begins_a_rebalance(rig):
    leader, member = rig.group_of("a", "b")
    rig.send(join(member, protocols=OTHER))
    assert rig.ask(heartbeat(leader, 1)).error_code is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_request_that_is_sent_again_answers_the_former_one(rig):
    first, second = rig.group_of("a", "b")
    before = rig.send(join(first, protocols=OTHER))
    after = rig.send(join(first, protocols=OTHER))
    assert rig.answers[before] == JoinGroupResult(ErrorCode.REBALANCE_IN_PROGRESS, first)
    rig.send(join(second))
    assert rig.answers[after].generation_id == 2


def test_while_the_leader_assigns_a_lost_answer_is_repeated(rig):
    first, second = rig.join_new("a"), rig.join_new("b")
    rig.send(join(first))
    rig.send(join(second))
    rig.advance(2 * DELAY_MS)
    again = rig.ask(join(first))
    assert again.generation_id == 1
    assert [each.member_id for each in again.members] == [first, second]


def test_a_member_id_that_is_not_used_ends_with_its_session(rig):
    member = rig.join_new(session_timeout_ms=1000)
    assert rig.coordinator.groups["g"].pending == {member: None}
    rig.advance(1000)
    assert "g" not in rig.coordinator.groups
    assert rig.ask(join(member)).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_member_ids_that_were_given_out(rig):
    (first,) = rig.group_of("a")
    second = rig.join_new("b", session_timeout_ms=1000)
    number = rig.send(join(first))
    assert number not in rig.answers
    rig.advance(1000)
    assert rig.answers[number].generation_id == 2
    assert rig.ask(join(second)).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_takes_no_other_member():
    rig = Rig(max_size=2)
    first, _ = rig.group_of("a", "b")
    assert rig.ask(join()).error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    # Its members are not affected.
    number = rig.send(join(first))
    assert number not in rig.answers


def test_member_ids_are_not_given_out_without_end(rig):
    for _ in range(MAX_MEMBER_IDS_GIVEN_OUT):
        rig.coordinator.handle(join(session_timeout_ms=1000), 0, rig.now)
    rig.coordinator.take_replies()
    assert rig.ask(join()).error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    rig.advance(1000)
    assert rig.ask(join()).error_code is ErrorCode.MEMBER_ID_REQUIRED


def test_a_new_member_that_waits_for_ever_is_removed():
    rig = Rig(initial_rebalance_delay_ms=400_000)
    number = rig.send(join(rig.join_new(), rebalance_timeout_ms=900_000))
    rig.advance(300_000)
    assert rig.answers[number] == JoinGroupResult(ErrorCode.UNKNOWN_MEMBER_ID)


# Static members ----------------------------------------------------------------------------


def static_group(rig, *names):
    """A stable group of static members; their member ids by instance id."""
    numbers = {name: rig.send(join(group_instance_id=name)) for name in names}
    rig.advance(2 * DELAY_MS)
    members = {name: rig.answers[number].member_id for name, number in numbers.items()}
    leader = rig.answers[numbers[names[0]]].leader
    assigned = tuple((each, each.encode()) for each in members.values())
    for name, each in members.items():
        if each != leader:
            rig.send(sync(each, 1, instance_id=name))
    name = next(name for name, each in members.items() if each == leader)
    rig.ask(sync(leader, 1, assigned, instance_id=name))
    return members


@pytest.mark.parametrize("name", ["x", "y"])
def test_the_next_process_of_a_static_member_goes_on(rig, name):
    members = static_group(rig, "x", "y")
    result = rig.ask(join(group_instance_id=name))
    assert result.error_code is ErrorCode.NONE
    assert result.generation_id == 1
    assert result.member_id != members[name]
    was_leader = name == "x"
    assert result.skip_assignment == was_leader
    assert (result.leader == result.member_id) == was_leader
    found = rig.ask(sync(result.member_id, 1, instance_id=name))
    assert found.assignment == members[name].encode()
    # Its place is in the log, or the next coordinator would not know it.
    last = decode(rig.partition.batches[-1].records[-1])
    assert isinstance(last, GroupRecord) and last.value is not None
    assert result.member_id in {each.member_id for each in last.value.members}
    fenced = rig.ask(heartbeat(members[name], 1, instance_id=name))
    assert fenced.error_code is ErrorCode.FENCED_INSTANCE_ID


def test_an_older_leader_is_not_made_to_assign_again(rig):
    members = static_group(rig, "x", "y")
    result = rig.ask(join(group_instance_id="x", may_skip_assignment=False))
    assert not result.skip_assignment and result.members == ()
    assert result.leader == members["x"] != result.member_id


def test_another_choice_of_a_static_member_begins_a_rebalance(rig):
    static_group(rig, "x")
    protocols = GroupProtocol("sticky", b""), *OTHER
    result = rig.answers[rig.send(join(group_instance_id="x", protocols=protocols))]
    assert (result.generation_id, result.protocol_name) == (2, "sticky")


def test_static_members_stay_when_a_rebalance_ends_without_them(rig):
    members = static_group(rig, "x", "y")
    number = rig.send(join(members["x"], group_instance_id="x", protocols=OTHER))
    # Within its session, and beyond the rebalance timeout.
    for _ in range(12):
        rig.advance(5_000)
        rig.send(heartbeat(members["y"], 1, instance_id="y"))
    rig.advance(1)
    assert rig.answers[number].generation_id == 2
    assert {each.group_instance_id for each in rig.answers[number].members} == {"x", "y"}


def test_a_silent_static_member_is_removed(rig):
    static_group(rig, "x")
    rig.advance(10_000)
    assert "g" not in rig.coordinator.groups


def test_a_static_member_that_joins_with_another_id_is_fenced(rig):
    members = static_group(rig, "x", "y")
    crossed = rig.ask(join(members["y"], group_instance_id="x"))
    assert crossed.error_code is ErrorCode.FENCED_INSTANCE_ID
    unknown = rig.ask(join(members["y"], group_instance_id="z"))
    assert unknown.error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_generation_of_a_group_that_was_left_goes_on(rig):
    (member,) = rig.group_of("a")
    rig.ask(leave(member))
    assert not rig.coordinator.groups
    number = rig.send(join(rig.join_new()))
    rig.advance(DELAY_MS)
    assert rig.answers[number].generation_id == 3


@pytest.mark.parametrize(("instance_id", "name"), [(None, "client"), ("i", "i"), ("", "")])
def test_a_member_id_begins_with_the_instance_or_else_with_the_client(rig, instance_id, name):
    """As in Kafka also with an instance that is the empty text."""
    number = rig.send(
        join(client_id="client", group_instance_id=instance_id, requires_member_id=False)
    )
    rig.advance(DELAY_MS)
    assert rig.answers[number].member_id.startswith(f"{name}-")
    assert len(rig.answers[number].member_id) == len(name) + 37


def test_a_member_id_that_was_given_out_does_not_take_an_instance_id_that_is_in_use(rig):
    """There would be two members of one instance, and one of them would never join again."""
    fixed = rig.send(join(group_instance_id="i"))
    rig.advance(2 * DELAY_MS)
    given = rig.join_new("b")
    answer = rig.ask(join(given, group_instance_id="i"))
    assert answer.error_code is ErrorCode.FENCED_INSTANCE_ID
    group = rig.coordinator.groups["g"]
    assert list(group.members) == [rig.answers[fixed].member_id] and given in group.pending

"""Goal: administrators move and forget what a share group has read, and nothing is left behind."""

from tests.unit.groups.consumer_rig import partitions, topic_id
from tests.unit.groups.share_rig import Sharers
from tidelog.errors import ErrorCode
from tidelog.groups.group_state import GroupState, GroupType
from tidelog.groups.messages import (
    AlterShareOffsets,
    DeleteGroup,
    DeleteGroupResult,
    DeleteShareOffsets,
    DescribeShareGroup,
    GroupProtocol,
    JoinGroup,
    ListedGroup,
    ShareOffsetsResult,
    StatesDeleted,
    StatesResult,
)

T = topic_id("t")


def emptied(**settings):
    """A group without members that has read `t`."""
    rig = Sharers(**settings)
    rig.begin("a")
    rig.beat("a", -1)
    return rig


def test_offsets_are_moved_while_there_are_no_members():
    rig = Sharers()
    wanted = tuple((each, 7) for each in sorted(partitions("t", 0, 1)))
    rig.begin("a")
    assert rig.ask(AlterShareOffsets("g", wanted)).error_code is ErrorCode.NON_EMPTY_GROUP
    rig.beat("a", -1)
    result = rig.ask(AlterShareOffsets("g", wanted))
    assert result.wanted.partitions == wanted
    assert result.wanted.state_epoch == rig.group().group_epoch
    assert rig.group().known_states.initializing[T].partitions == {0, 1}
    rig.report(result.wanted)
    assert not rig.group().known_states.initializing


def test_a_group_that_does_not_exist_is_made():
    rig = Sharers()
    wanted = tuple((each, 7) for each in partitions("t", 0))
    assert rig.ask(AlterShareOffsets("g", wanted)).wanted.state_epoch == 1
    listed = rig.coordinator.list_groups()
    rig.ask(AlterShareOffsets("none of its partitions exists", ()))
    rig.ask(AlterShareOffsets("none of its topics exists", (), knows_topics=False))
    assert {each.group_id for each in rig.coordinator.list_groups()} == {
        "g",
        "none of its partitions exists",
    }
    assert listed == [ListedGroup("g", "share", GroupState.EMPTY, GroupType.SHARE)]


def test_a_group_forgets_a_topic():
    rig = emptied()
    result = rig.ask(DeleteShareOffsets("g", (T, topic_id("u"))))
    assert {each for each, _ in result.wanted.partitions} == partitions("t", 0, 1, 2, 3)
    states = rig.group().known_states
    assert (states.initialized, states.deleting) == ({}, {T: "t"})
    again = rig.ask(DeleteShareOffsets("g", (T,)))
    assert again.wanted == result.wanted, "it was not reported"
    assert rig.ask(StatesDeleted("g", (T,))) == StatesResult()
    assert not rig.group().known_states.deleting
    assert rig.ask(DeleteShareOffsets("g", (T,))).wanted.partitions == ()


def test_a_member_that_comes_back_is_initialised_anew():
    rig = emptied()
    rig.ask(DeleteShareOffsets("g", (T,)))
    back = rig.beat("a", 0, "t")
    assert back.assigned == () and len(back.wanted.partitions) == 4
    assert not rig.group().known_states.deleting


def test_states_that_were_to_be_deleted_meanwhile_are_not_noted():
    """A share coordinator answers in the order of what it is asked. A member would be assigned
    partitions that it knows nothing of."""
    rig = emptied()
    altered = rig.ask(AlterShareOffsets("g", tuple((each, 7) for each in partitions("t", 0, 1))))
    rig.ask(DeleteShareOffsets("g", (T,)))
    rig.report(altered.wanted)
    rig.ask(StatesDeleted("g", (T,)))
    back = rig.beat("a", 0, "t")
    assert back.assigned == () and len(back.wanted.partitions) == 4
    rig.beat("a", -1)
    rig.ask(DeleteGroup("g"))
    rig.report(back.wanted)
    # Some of the states are gone, and the group is not.
    assert len(rig.beat("a", 0, "t").wanted.partitions) == 4


def test_other_groups_have_no_such_offsets():
    rig = Sharers()
    protocols = (GroupProtocol("range", b""),)
    rig.ask(JoinGroup("g", "", None, "c", "/h", 3000, 3000, "consumer", protocols, False))
    for request in (AlterShareOffsets("g", ()), DeleteShareOffsets("g", ())):
        answer = rig.ask(request)
        assert isinstance(answer, ShareOffsetsResult)
        assert answer.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert rig.ask(StatesDeleted("h", ())) == StatesResult(ErrorCode.GROUP_ID_NOT_FOUND)


def test_a_group_is_deleted_when_its_states_are():
    rig = Sharers()
    rig.begin("a")
    assert rig.ask(DeleteGroup("g")) == DeleteGroupResult(ErrorCode.NON_EMPTY_GROUP)
    rig.beat("a", -1)
    first = rig.ask(DeleteGroup("g"))
    assert {each for each, _ in first.wanted.partitions} == partitions("t", 0, 1, 2, 3)
    assert rig.ask(DeleteGroup("g")).wanted == first.wanted, "the first try was lost"
    done = rig.ask(DeleteGroup("g", are_states_deleted=True))
    assert done == DeleteGroupResult(ErrorCode.NONE)
    assert rig.coordinator.committed.get("g") is None
    assert rig.ask(DescribeShareGroup("g")).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert rig.ask(DescribeShareGroup("")).error_code is ErrorCode.INVALID_GROUP_ID
    assert Sharers(rig.partition).coordinator.committed.get("g") is None


def test_states_of_a_member_that_came_while_a_group_was_deleted_go_first():
    """The next group of that name has lower epochs: share coordinators would refuse to begin
    these states for it."""
    rig = emptied()
    first = rig.ask(DeleteGroup("g"))
    rig.begin("b")
    rig.beat("b", -1)
    again = rig.ask(DeleteGroup("g", are_states_deleted=True))
    assert again.wanted is not None and again.wanted.partitions == first.wanted.partitions
    assert rig.ask(DeleteGroup("g", are_states_deleted=True)) == DeleteGroupResult(ErrorCode.NONE)
    assert rig.coordinator.committed.get("g") is None

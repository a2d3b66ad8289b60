"""Goal: the image is what the records say, and an earlier image stays what it was."""

from tidelog.groups.image import GroupImage, GroupsImage, GroupsMachine
from tidelog.groups.records import CommittedOffset, GroupRecord, GroupValue, OffsetRecord
from tidelog.model import TopicPartition

MACHINE = GroupsMachine()
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
EMPTY = GroupValue("consumer", 3, None, None, 0, ())


def replayed(state, *records):
    return MACHINE.replay(state, records, 0, 0)


def test_offsets_and_groups_come_and_go():
    one = replayed(GroupsImage(), OffsetRecord("g", T0, CommittedOffset(5)))
    assert one.get("g") == GroupImage({T0: CommittedOffset(5)})
    two = replayed(
        one,
        OffsetRecord("g", T1, CommittedOffset(6)),
        GroupRecord("g", EMPTY),
        OffsetRecord("h", T0, CommittedOffset(1)),
    )
    assert two.get("g") == GroupImage({T0: CommittedOffset(5), T1: CommittedOffset(6)}, EMPTY)
    three = replayed(two, OffsetRecord("g", T0, None), OffsetRecord("h", T0, None))
    assert three.get("g") == GroupImage({T1: CommittedOffset(6)}, EMPTY)
    assert three.get("h") is None
    four = replayed(three, GroupRecord("g", None), OffsetRecord("g", T1, None))
    assert four.get("g") is None
    # Nothing of it has changed the images before.
    assert one.get("g") == GroupImage({T0: CommittedOffset(5)})
    assert len(two.groups) == 2


def test_the_last_record_of_a_batch_counts():
    records = [OffsetRecord("g", T0, CommittedOffset(offset)) for offset in (5, 9, 7)]
    assert replayed(GroupsImage(), *records).get("g") == GroupImage({T0: CommittedOffset(7)})


def test_tombstones_of_what_is_not_there_change_nothing():
    image = replayed(GroupsImage(), OffsetRecord("g", T0, None), GroupRecord("h", None))
    assert not len(image.groups)

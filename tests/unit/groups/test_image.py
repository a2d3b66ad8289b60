"""Goal: the image is what the records say, and an earlier image stays what it was."""

import pytest

from tidelog.env.prng import Prng
from tidelog.groups.image import GroupImage, GroupsImage, GroupsMachine
from tidelog.groups.records import CommittedOffset, GroupRecord, GroupValue, OffsetRecord
from tidelog.groups.transactions import PendingOffset
from tidelog.model import TopicPartition
from tidelog.records.control import EndTxnMarker
from tidelog.rsm.log_records import TransactionEnd

MACHINE = GroupsMachine()
MACHINE.end_loading()
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


def _drawn(prng):
    """A record of one of few groups."""
    group_id, partition = prng.choice("gh"), prng.choice((T0, T1))
    kind = prng.below(6)
    if kind < 2:
        return GroupRecord(group_id, prng.choice((EMPTY, None)))
    offset = None if kind == 2 else CommittedOffset(prng.below(1000))
    return OffsetRecord(group_id, partition, offset)


def _followed(known, record):
    """What a record does, said simply: the offsets and the value of each group."""
    offsets, _ = group = known.setdefault(record.group_id, [{}, None])
    if isinstance(record, GroupRecord):
        group[1] = record.value
    elif record.value is None:
        offsets.pop(record.topic_partition, None)
    else:
        offsets[record.topic_partition] = record.value


@pytest.mark.parametrize("seed", range(50))
def test_a_load_copies_no_offsets_and_ends_with_what_the_log_says(seed):
    """Groups go and come again, also with nothing but their record."""
    prng, machine, image, known = Prng(seed), GroupsMachine(), GroupsImage(), {}
    for offset in range(60):
        batch = [_drawn(prng) for _ in range(prng.between(1, 4))]
        image = machine.replay(image, batch, offset, 0)
        for record in batch:
            _followed(known, record)
        found = {group_id: (one.offsets, one.value) for group_id, one in image.groups.items()}
        assert found == {group_id: tuple(one) for group_id, one in known.items() if any(one)}
    machine.end_loading()
    later = machine.replay(image, [OffsetRecord("g", T0, CommittedOffset(-7))], 99, 0)
    assert later.get("g").offsets[T0] == CommittedOffset(-7)
    still = {group_id: (one.offsets, one.value) for group_id, one in image.groups.items()}
    assert still == {group_id: tuple(one) for group_id, one in known.items() if any(one)}


def _drawn_with_transactions(prng):
    """The same, or what has to do with the transactions of two producers."""
    producer_id = prng.below(2)
    match prng.below(6):
        case 0:
            return TransactionEnd(producer_id, 0, EndTxnMarker(prng.chance(1, 2), 0))
        case 1 | 2:
            record = OffsetRecord(prng.choice("gh"), T0, CommittedOffset(prng.below(1000)))
            return PendingOffset(producer_id, 0, record)
        case _:
            return _drawn(prng)


@pytest.mark.parametrize("seed", range(100))
def test_a_batch_is_its_records_one_by_one(seed):
    """Whatever a commit finds that stands behind another one of its group."""
    prng = Prng(seed)
    records = [_drawn_with_transactions(prng) for _ in range(prng.between(2, 30))]
    together = MACHINE.replay(GroupsImage(), records, 1, 0)
    apart = GroupsImage()
    for offset, record in enumerate(records):
        apart = MACHINE.replay(apart, [record], offset, 0)
    assert together.open == apart.open
    found = [
        {name: _without_places(one) for name, one in each.groups.items()}
        for each in (together, apart)
    ]
    assert found[0] == found[1]


def _without_places(group):
    """A group without the places in the log of what waits."""
    waiting = {
        producer_id: {key: (one.value, one.is_superseded) for key, one in commits.items()}
        for producer_id, commits in group.waiting.items()
    }
    return group.offsets, group.value, {key: value for key, value in waiting.items() if value}

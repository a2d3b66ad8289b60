"""Batches and parts: they split where records differ, and join where they do not."""

from tidelog.env.instant import Instant
from tidelog.sharing.in_flight import Batch, Change
from tidelog.sharing.values import RecordState, StateBatch

UNTIL = Instant(100)


def acquired(first=0, last=9):
    batch = Batch.of(first, last, RecordState.AVAILABLE, 0)
    batch.parts[0].acquire("a", UNTIL)
    return batch


def ranges(batch):
    batch.check()
    return [(part.first, part.last) for part in batch.parts]


def test_a_range_splits_the_parts_that_cross_its_ends():
    batch = acquired()
    assert [(part.first, part.last) for part in batch.within(3, 5)] == [(3, 5)]
    assert ranges(batch) == [(0, 2), (3, 5), (6, 9)]
    assert [(part.first, part.last) for part in batch.within(0, 20)] == [(0, 2), (3, 5), (6, 9)]
    batch.join()
    assert ranges(batch) == [(0, 9)]


def test_a_change_writes_neighbours_as_one():
    batch, change = acquired(), Change()
    for first, last, state in [(0, 3, 2), (4, 5, 2), (6, 9, 0)]:
        for part in batch.within(first, last):
            part.begin(change, RecordState(state), limit=5)
    assert change.batches == [StateBatch(0, 5, 2, 1), StateBatch(6, 9, 0, 1)]


def test_a_part_that_is_split_stays_in_its_change():
    batch, change = acquired(), Change()
    batch.parts[0].begin(change, RecordState.ACKNOWLEDGED, limit=5)
    batch.within(4, 9)
    assert [(part.first, part.last) for part in change.parts] == [(0, 3), (4, 9)]
    for part in change.parts:
        part.roll_back(Instant(50), limit=5)
    batch.join()
    assert ranges(batch) == [(0, 9)]
    assert batch.parts[0].member_id == "a"


def test_a_release_at_the_limit_archives():
    batch, change = acquired(), Change()
    batch.parts[0].begin(change, RecordState.AVAILABLE, limit=1)
    assert batch.parts[0].state is RecordState.ARCHIVED


def test_what_is_archived_is_in_no_change():
    batch, change = acquired(), Change()
    batch.parts[0].begin(change, RecordState.AVAILABLE, limit=5)
    batch.parts[0].archive()
    assert batch.parts[0].is_done
    batch.check()


def test_offsets_before_another_are_forgotten():
    batch = acquired()
    batch.drop_before(7)
    assert ranges(batch) == [(7, 9)]
    assert batch.size == 10

"""Goal: what a leader has written another leader reads, and the former one changes nothing more."""

from tests.unit.rsm.coordinator_rig import WALL_MS
from tests.unit.shares.rig import P0, Rig, write
from tidelog.errors import ErrorCode
from tidelog.rsm.coordinator import Refused
from tidelog.shares.batches import StateBatch
from tidelog.shares.messages import InitializeState, ReadState, ReadSummary, StateResult
from tidelog.shares.records import Snapshot, Update, decode

SEED = 4711


def values_of(rig, partition=P0):
    """The values that were written about a share partition."""
    records = [decode(raw) for batch in rig.partition.batches for raw in batch.records]
    return [each.value for each in records if each.partition == partition]


# Reading and writing ------------------------------------------------------------------------


def test_a_share_partition_is_initialised_before_it_is_used():
    rig = Rig()
    for request in (ReadState(P0, 0), write()):
        assert rig.ask(request).error_code is ErrorCode.INVALID_REQUEST
    assert rig.ask(ReadSummary(P0)) == StateResult(state=Snapshot())
    assert rig.ask(InitializeState(P0, 3)) == StateResult()
    begun = Snapshot(state_epoch=3, create_ms=WALL_MS, write_ms=WALL_MS)
    assert rig.ask(ReadState(P0, 0)) == StateResult(state=begun)


def test_the_next_leader_reads_what_the_former_wrote():
    rig = Rig()
    rig.initialize(P0, start=10)
    rig.ask(ReadState(P0, 4))
    rig.ask(write(P0, (10, 12, 2, 1), (13, 13, 0, 1), leader_epoch=4, complete=3))
    rig.ask(write(P0, (13, 13, 4, 2), leader_epoch=4, start_offset=12, complete=2))
    rig = Rig(rig.partition)
    found = rig.ask(ReadState(P0, 5)).state
    assert (found.start_offset, found.leader_epoch, found.complete) == (12, 4, 2)
    assert found.batches == (StateBatch(12, 12, 2, 1), StateBatch(13, 13, 4, 2))
    assert rig.known().whole.leader_epoch == 5


def test_an_answer_waits_until_it_is_committed():
    rig = Rig()
    rig.initialize(P0)
    number = rig.send(write(P0, (0, 4, 2, 1)))
    read = rig.send(ReadState(P0))
    assert number not in rig.answers and read not in rig.answers
    rig.commit()
    assert rig.answers[number] == StateResult()
    assert rig.answers[read].state.batches == (StateBatch(0, 4, 2, 1),)


def test_what_was_not_committed_is_refused_and_gone():
    rig = Rig()
    rig.initialize(P0)
    number = rig.send(write(P0, (0, 4, 2, 1)))
    rig.coordinator.resign()
    rig._settle()
    assert rig.answers[number] == Refused(ErrorCode.NOT_COORDINATOR)
    assert Rig(rig.partition).ask(ReadState(P0)).state.batches == ()


def test_a_snapshot_follows_after_so_many_updates():
    rig = Rig(updates_per_snapshot=2)
    rig.initialize(P0)
    for offset in range(5):
        rig.ask(write(P0, (offset, offset, 2, 1), start_offset=offset))
    kinds = [type(each) for each in values_of(rig)]
    assert kinds == [Snapshot, Update, Update, Snapshot, Update, Update]
    last = values_of(rig)[3]
    assert (last.snapshot_epoch, last.start_offset) == (1, 2)
    assert last.batches == (StateBatch(2, 2, 2, 1),)
    assert rig.known().whole.start_offset == 4


def test_a_record_that_is_too_large_is_refused():
    rig = Rig()
    rig.initialize(P0)
    rig.partition.max_batch_bytes = 100
    runs = [(offset, offset, 2, 1 + offset % 2) for offset in range(50)]
    assert rig.ask(write(P0, *runs)) == Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert rig.known().whole.batches == ()

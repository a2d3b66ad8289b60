"""Goal: the log keeps what is needed, and not much more."""

from tests.unit.rsm.coordinator_rig import WALL_MS
from tests.unit.shares.rig import OF_OTHER, OTHER, P0, P1, TOPIC, Rig, write
from tidelog.shares.messages import DeleteState
from tidelog.shares.records import SharePartition

SEED = 4711


def test_what_snapshots_stand_for_is_not_needed():
    rig = Rig(updates_per_snapshot=1, cold_interval_ms=1 << 40)
    rig.initialize(P0, P1)
    for partition in (P0, P1) * 4:
        rig.ask(write(partition))
    rig.advance(300_000)
    assert rig.coordinator.redundant_before == rig.known(P0).snapshot_offset == 8
    before = rig.known(P0).whole, rig.known(P1).whole
    rig.prune()
    again = Rig(rig.partition)
    assert (again.known(P0).whole, again.known(P1).whole) == before


def test_offsets_count_from_where_the_log_begins():
    rig = Rig(updates_per_snapshot=0, cold_interval_ms=1 << 40)
    rig.initialize(P0)
    rig.ask(write())
    rig.advance(300_000)
    rig.prune()
    assert rig.partition.batches[0].base_offset == 1
    assert Rig(rig.partition).known().snapshot_offset == 1


def test_a_cold_share_partition_does_not_hold_the_log_back():
    rig = Rig(updates_per_snapshot=0)
    rig.initialize(P0, P1)
    rig.ask(write(P1))
    rig.advance(300_000)
    assert rig.coordinator.redundant_before == 0
    cold = rig.known(P0).whole
    assert (cold.create_ms, cold.write_ms) == (WALL_MS, WALL_MS + 300_000)
    end = rig.partition.end_offset
    rig.advance(600_000)
    assert rig.partition.end_offset == end, "a quiet log is left alone"
    assert rig.coordinator.redundant_before == min(
        rig.known(P0).snapshot_offset, rig.known(P1).snapshot_offset
    )


def test_nothing_is_needed_of_a_log_without_share_partitions():
    rig = Rig()
    rig.initialize(P0)
    rig.ask(DeleteState(P0))
    rig.advance(300_000)
    assert rig.coordinator.redundant_before == rig.partition.end_offset == 2


def test_uncommitted_snapshots_delete_nothing():
    rig = Rig(updates_per_snapshot=0)
    rig.initialize(P0)
    rig.send(write())
    rig.now += 300_000
    rig._wake()
    assert rig.coordinator.redundant_before == 0
    assert len(rig.partition.batches) == 3, "the cold snapshot stands on the newest state"
    rig.now += 300_000
    rig._wake()
    assert len(rig.partition.batches) == 3, "one look's records are enough"


def test_the_share_partitions_of_a_deleted_topic_go():
    rig = Rig()
    rig.initialize(P0, OF_OTHER)
    del rig.topics[OTHER]
    rig.coordinator.on_topic_deleted(rig.now)
    rig.advance(0)
    assert [key for key, _ in rig.coordinator.entries.items()] == [P0.key]


def test_a_look_goes_in_slices(monkeypatch):
    monkeypatch.setattr("tidelog.shares.upkeep.SHARE_STATES_PER_TURN", 3)
    rig = Rig(updates_per_snapshot=0)
    many = [SharePartition(f"g{number}", TOPIC, 0) for number in range(10)]
    rig.initialize(*many)
    rig.now += 300_000
    for count in (3, 6, 9, 10):
        rig._wake()
        assert rig.partition.end_offset == len(many) + count
    assert rig.coordinator.deadline() == rig.now + 300_000

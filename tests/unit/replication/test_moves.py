"""Replicas that move between disks: what is copied, when it counts, and what a crash leaves."""

import pytest

from tests.unit.log.harness import PARTITION, TOPIC_ID, WALL_MS, batch
from tests.unit.replication.move_bench import IDS, MoveBench
from tidelog.env.effects import OnDisk
from tidelog.env.memory_disk import Operation
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.log.checkpoint import CleanShutdown
from tidelog.log.values import OfflineDirectory
from tidelog.model import TopicId, TopicPartition, Uuid
from tidelog.records.batch import stamp
from tidelog.replication import moves
from tidelog.replication.events.moves import MoveGivenUp
from tidelog.replication.messages import LogStartsSaved
from tidelog.replication.retention import Retention
from tidelog.sim.engine.disk import ProcessKilled


def under_way(monkeypatch: pytest.MonkeyPatch, records: int = 60) -> MoveBench:
    """A move to disk 2 of which a few records are copied."""
    monkeypatch.setattr(moves, "MOVE_BYTES_PER_TURN", 400)
    bench = MoveBench()
    bench.append(records)
    assert bench.request(2) is ErrorCode.NONE
    bench.turns(3)
    assert 0 < copied_to(bench) < records
    return bench


def copied() -> MoveBench:
    """A move to disk 2 whose copy has all 30 records, and which the metadata does not know of."""
    bench = MoveBench()
    bench.append(30)
    bench.obeys = False
    bench.request(2)
    bench.turns(20)
    return bench


def copied_to(bench: MoveBench) -> int:
    target = bench.env.directories.target_of(PARTITION)
    assert target is not None
    return target.futures.logs[PARTITION].log.log_end_offset


def test_a_replica_moves_while_it_is_written_to() -> None:
    bench = MoveBench()
    bench.append(30)
    assert bench.request(2) is ErrorCode.NONE
    assert [name.endswith("-future") for name in bench.names(2)] == [True]
    for _ in range(50):
        bench.append()
        bench.turn()
    assert bench.place == 2 and bench.said == IDS[2]
    assert [int(each.value[:-100]) for each in bench.records] == list(range(80))
    assert bench.names(2) == [str(PARTITION)] and bench.names(1) == []
    # And back, as soon as the former directory is free of the name.
    assert bench.request(1) is ErrorCode.NONE
    bench.turns()
    assert bench.place == 1 and len(bench.records) == 80
    assert bench.names(2) == []


def test_the_log_serves_until_the_metadata_names_the_new_directory() -> None:
    bench = MoveBench()
    bench.obeys = False
    bench.append(30)
    bench.request(2)
    bench.turns()
    bench.append(5)
    bench.turns()
    assert bench.place == 1 and copied_to(bench) == 35
    bench.obeys = True
    bench.turns()
    assert bench.place == 2 and len(bench.records) == 35


def test_what_a_copy_gave_up_is_not_missed_once_it_is_the_log() -> None:
    """Goal (seed 99505752 of aimed-swaps): the copy was saved with more records, which the log has
    given up since. A power cut right behind the swap."""
    bench = copied()
    target = bench.env.directories.target_of(PARTITION)
    assert target is not None
    target.checkpoint_recovery_points()
    bench.carry_out()
    bench.log.truncate_to(10)
    bench.obeys = True
    while bench.place == 1:
        bench.turn()
    bench.restart(power_cut=True)
    assert bench.place == 2 and len(bench.records) == 10


def test_a_start_does_not_take_for_durable_what_a_copy_has_behind_a_cut() -> None:
    """Goal: the directory of the copy claimed what that had before it was cut. The process dies
    before what was copied since is durable; a start took that for durable, it was never flushed,
    and a power cut behind the move took it."""
    bench = copied()
    bench.env.directories.online[2].checkpoint_recovery_points()
    bench.carry_out()
    bench.log.truncate_to(5)
    bench.begin_term()
    bench.append(40)
    bench.hanging = {2}
    bench.turns(20)
    bench.hanging.clear()
    expected = bench.records
    bench.restart()
    bench.obeys = True
    bench.request(2)
    assert bench.ends_on(2) and bench.records == expected
    bench.restart(power_cut=True)
    assert bench.records == expected


@pytest.mark.parametrize("cut_to", [3, 50])
def test_a_copy_gives_up_what_the_log_gives_up(
    monkeypatch: pytest.MonkeyPatch, cut_to: int
) -> None:
    """The log is cut below the end of the copy, or above it, and goes on in another epoch."""
    bench = under_way(monkeypatch)
    bench.log.truncate_to(cut_to)
    bench.begin_term()
    bench.append(40)
    expected = bench.records
    bench.turns()
    assert bench.place == 2 and bench.records == expected
    assert len(bench.log.epochs.entries) > 1


def test_a_copy_begins_where_the_log_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention or DeleteRecords raise the log start above what is copied, and once more below."""
    bench = under_way(monkeypatch)
    bench.log.maybe_raise_log_start_offset(50)
    bench.turns(3)
    bench.log.maybe_raise_log_start_offset(52)
    expected = bench.records
    bench.turns()
    assert bench.place == 2 and bench.records == expected
    assert bench.log.log_start_offset == 52


@pytest.mark.parametrize("seed", range(6))
def test_a_log_without_records_keeps_its_offsets_when_it_moves(seed: int) -> None:
    """Goal: where all records were deleted, a power cut behind the move does not make a log of it
    that begins at 0 and would give the offsets out again (cluster seed 1352280007)."""
    bench = MoveBench()
    bench.append(10)
    bench.log.request_flush()
    bench.carry_out()
    bench.log.maybe_raise_log_start_offset(10)
    assert bench.request(2) is ErrorCode.NONE
    assert bench.ends_on(2)
    bench.restart(Prng(seed), power_cut=True)
    assert bench.place == 2
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (10, 10)
    assert bench.log.topic_id == TOPIC_ID


def test_a_log_that_begins_anew_is_copied_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = under_way(monkeypatch)
    bench.log.truncate_fully_and_start_at(1000)
    bench.turns()
    assert bench.place == 2 and bench.log.log_start_offset == bench.log.log_end_offset == 1000


@pytest.mark.parametrize("records", [0, 10])
def test_a_log_that_begins_anew_below_its_copy_is_copied_anew(records: int) -> None:
    """Goal: no move goes on for ever because the copy lacks what lies below its own start. A leader
    that was elected unclean had the log cut below its start."""
    bench = MoveBench()
    bench.obeys = False
    bench.log.truncate_fully_and_start_at(20)
    bench.append(records)
    bench.request(2)
    bench.turns(10)
    bench.log.truncate_to(5)
    bench.append(40)
    bench.obeys = True
    expected = bench.records
    assert bench.ends_on(2) and bench.records == expected


def test_a_copy_is_made_anew_that_a_crash_leaves_with_a_later_start() -> None:
    """Goal: the move ends where only the disk of the copy has saved the log start."""
    bench = copied()
    bench.log.maybe_raise_log_start_offset(20)
    bench.turns(5)
    bench.env.directories.online[2].checkpoint_recovery_points()
    bench.env.directories.online[2].checkpoint_log_start_offsets()
    bench.carry_out()
    bench.restart()
    assert bench.log.log_start_offset == 0 and copied_to(bench) == 30
    bench.obeys = True
    assert bench.ends_on(2) and len(bench.records) == 30


@pytest.mark.parametrize("turns", [3, 400])
def test_a_move_is_taken_back(monkeypatch: pytest.MonkeyPatch, turns: int) -> None:
    """Whether the metadata names the new directory already or not."""
    bench = under_way(monkeypatch)
    bench.turns(20)
    bench.obeys = turns == 3
    bench.turns(turns)
    if turns == 400:
        # The report has arrived, and its effect is not known here.
        bench.said = IDS[2]
    assert bench.request(1) is ErrorCode.NONE
    bench.obeys = True
    bench.follow_metadata()
    bench.turns()
    assert bench.place == 1 and bench.said == IDS[1]
    assert bench.names(2) == [] and len(bench.records) == 60


def test_another_wish_replaces_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = under_way(monkeypatch)
    assert bench.request(0) is ErrorCode.NONE
    bench.turns()
    assert bench.place == 0 and len(bench.records) == 60
    assert bench.names(1) == bench.names(2) == []


def test_flushes_of_a_copy_do_not_count_for_the_next_one_on_another_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Goal: a copy that is redirected claims nothing that the former one had flushed, whose disk
    answers late."""
    bench = under_way(monkeypatch)
    for _ in range(30):
        bench.tick()
    late = bench.effects.take()
    assert bench.request(0) is ErrorCode.NONE
    for _ in range(3):
        bench.tick()
    for effect in late:
        assert isinstance(effect, OnDisk)
        bench.answer(effect.work.subject)
    future = bench.env.directories.online[0].futures.logs[PARTITION].log
    assert future.recovery_point == 0
    assert bench.ends_on(0)


def test_a_full_disk_leaves_the_replica_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = under_way(monkeypatch)
    bench.disks[2].capacity_bytes = bench.disks[2].used_bytes + 500
    bench.turns()
    assert bench.place == 1 and bench.names(2) == []
    assert not bench.env.directories.has_failed
    (given_up,) = [each for each in bench.trace.events if isinstance(each, MoveGivenUp)]
    assert "no space left" in given_up.reason


def test_a_copy_that_is_given_up_goes_also_if_nothing_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Goal: a copy too large for a disk does not keep that full until a client writes to the
    replica, and one that is damaged is made anew."""
    bench = under_way(monkeypatch)
    bench.disks[2].capacity_bytes = bench.disks[2].used_bytes + 500
    for _ in range(20):
        bench.work()
        bench.carry_out()
        bench.env.directories.clear_renamed(4)
    assert bench.place == 1 and bench.names(2) == []


def test_a_throttle_bounds_what_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = under_way(monkeypatch)
    bench.env.throttles.moves.rate = 5000
    before = copied_to(bench)
    bench.turns(600)
    # A record has about 180 bytes.
    assert before < copied_to(bench) < before + 32
    bench.env.throttles.moves.rate = 1 << 62
    bench.turns(60)
    assert bench.place == 2


def test_what_cannot_be_moved_is_refused() -> None:
    bench = MoveBench()
    request, now, root = bench.moves.request, bench.now, bench.disks[2].root
    assert request(PARTITION, "nowhere", now) is ErrorCode.LOG_DIR_NOT_FOUND
    assert request(TopicPartition("t" * 230, 0), root, now) is ErrorCode.INVALID_TOPIC_EXCEPTION
    unknown = TopicPartition("unknown", 0)
    assert request(unknown, root, now) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert bench.request(1) is ErrorCode.NONE and bench.env.directories.futures == []
    gone = OfflineDirectory("gone", Uuid(b"g" * 16), "input/output error")
    bench.env.directories.offline[7] = gone
    assert request(PARTITION, "gone", now) is ErrorCode.KAFKA_STORAGE_ERROR
    assert bench.request(2) is ErrorCode.KAFKA_STORAGE_ERROR
    # It is where an administrator wanted it before it was.
    bench.env.directories.create(unknown, TOPIC_ID, bench.config, IDS[0])
    assert bench.disks[2].exists("unknown-0")


@pytest.mark.parametrize("power_cut", [False, True])
@pytest.mark.parametrize("group_commit", [False, True])
def test_no_crash_loses_a_record(
    monkeypatch: pytest.MonkeyPatch, power_cut: bool, group_commit: bool
) -> None:
    """Goal: at any operation of either disk the process may die, or the machine: what was written,
    or was durable, is there afterwards, in one log, and the move can be made to its end."""
    monkeypatch.setattr(moves, "MOVE_BYTES_PER_TURN", 600)
    point, is_over, prng = 0, False, Prng(7)
    while not is_over:
        bench = moving(group_commit)
        durable = bench.log.recovery_point
        is_over = not crashes(bench, point)
        kept = max(durable, bench.log.recovery_point) if power_cut else bench.log.log_end_offset
        expected = [each.value for each in bench.records][:kept]
        bench.restart(prng, power_cut=power_cut)
        found = [each.value for each in bench.records]
        assert found[: len(expected)] == expected, f"point {point}"
        bench.request(2)
        assert bench.ends_on(2), f"point {point}"
        assert [each.value for each in bench.records][: len(expected)] == expected
        point += 5
    assert point > 30


def moving(group_commit: bool) -> MoveBench:
    bench = MoveBench()
    if group_commit:
        bench.configure(flush_messages=1)
    bench.append(15)
    bench.log.request_flush()
    bench.carry_out()
    return bench


def crashes(bench: MoveBench, point: int) -> bool:
    """Lets the process die at this operation of the disks while the replica moves."""
    count = 0

    def witness(operation: Operation, path: str) -> None:
        nonlocal count
        count += operation is not Operation.LOOK
        if count > point:
            bench.watch(None)
            raise ProcessKilled(path)

    bench.watch(witness)
    try:
        bench.request(2)
        for _ in range(6):
            bench.append()
            bench.log.request_flush()
            bench.turns(2)
        assert bench.ends_on(2)
    except ProcessKilled:
        return True
    bench.watch(None)
    return False


@pytest.mark.parametrize("seed", range(6))
def test_the_former_log_stays_until_the_copy_is_durable(seed: int) -> None:
    """Goal: what was durable in the one log is durable in the one or the other, in each instant."""
    bench = moving(group_commit=True)
    bench.request(2)
    while bench.place == 1:
        bench.turn()
        bench.append()
        bench.log.request_flush()
        bench.carry_out()
        bench.tick()
    count = bench.log.log_end_offset
    assert bench.log.recovery_point < count and bench.names(1) == [str(PARTITION)]
    # The disk that has the former log saves its names, for whatever reason.
    bench.disks[1].sync_tree()
    bench.restart(Prng(seed), power_cut=True)
    assert len(bench.records) == count


def test_the_former_log_stays_until_the_name_of_the_copy_is_durable() -> None:
    """Goal: a kill right behind the swap, of a copy that a clean stop has saved, and a power cut
    right behind the next start."""
    bench = moving(group_commit=True)
    bench.request(2)
    while bench.said != IDS[2]:
        bench.turn()
    assert bench.place == 1
    assert bench.env.directories.close_cleanly(CleanShutdown(1))
    bench.carry_out()
    bench.restart()
    while bench.place == 1:
        bench.carry_out()
        bench.tick()
    bench.restart()
    assert bench.place == 2
    bench.turns(5)
    assert bench.names(1) == []
    bench.restart(power_cut=True)
    assert bench.place == 2 and len(bench.records) == 15


def test_a_log_without_records_has_a_durable_name_before_its_copy_counts() -> None:
    """Goal (seed 158307335 of aimed): a power cut right behind the swap takes the name of the copy,
    and leaves the copy, as other files of that disk are flushed. The log is still there."""
    bench = MoveBench()
    bench.request(2)
    while bench.said != IDS[2]:
        bench.turn()
    bench.disks[2].sync_tree()
    while bench.place == 1:
        bench.tick()
    bench.restart(power_cut=True)
    assert bench.place == 1 and not bench.env.directories.has_lost_original(PARTITION, bench.said)
    assert bench.ends_on(2)


@pytest.mark.parametrize("records", [0, 5])
def test_a_log_has_a_durable_name_before_its_copy_is_reported(records: int) -> None:
    """Goal: the disk of the log hangs, and its flushes wait. Disks keep no order among each other,
    so that of the copy proves nothing: a power cut left the copy alone, and a lost replica."""
    bench = MoveBench()
    bench.append(records)
    bench.hanging = {1}
    bench.request(2)
    bench.turns(30)
    assert bench.said == IDS[1]
    bench.hanging.clear()
    bench.restart()
    assert bench.ends_on(2)


def test_a_copy_without_records_has_a_durable_name_before_the_log_goes() -> None:
    """Goal (seed 30595215 of aimed-swaps): `partition.metadata`, its only file, is durable in its
    place, or a power cut behind the end of the move makes the replica a lost one."""
    bench = MoveBench()
    bench.request(2)
    while str(PARTITION) in bench.names(1):
        bench.turn()
    assert f"{PARTITION}/partition.metadata" in bench.disks[2].durable_files()


def test_a_copy_alone_does_not_count() -> None:
    """Goal: where the disk with the log is missing, and the metadata names the disk with the copy,
    the copy is known not to be the log."""
    bench = MoveBench()
    bench.append(30)
    bench.obeys = False
    bench.request(2)
    bench.turns()
    bench.open(offline=(1,))
    directories = bench.env.directories
    assert directories.has_lost_original(PARTITION, IDS[2])
    assert not directories.has_lost_original(PARTITION, IDS[1])
    directories.create(PARTITION, TOPIC_ID, bench.config, IDS[2])
    assert not directories.has_lost_original(PARTITION, IDS[2])
    assert [name for name in bench.names(2) if name.endswith("-future")] == []


def two_copies(monkeypatch: pytest.MonkeyPatch) -> MoveBench:
    """A move to disk 0 began while an operator had taken disk 2 out, to which one was under way."""
    bench = under_way(monkeypatch)
    bench.open(offline=(2,))
    bench.begin_process()
    assert bench.request(0) is ErrorCode.NONE
    bench.turns(3)
    bench.restart()
    assert len(bench.env.directories.futures) == 2
    return bench


def test_of_two_copies_one_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: no copy stays for ever, on a disk to which no move could be made any more."""
    bench = two_copies(monkeypatch)
    assert bench.ends_on(0) and bench.request(2) is ErrorCode.NONE and bench.ends_on(2)


def test_both_copies_go_with_their_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = two_copies(monkeypatch)
    bench.env.directories.schedule_delete(PARTITION)
    assert bench.env.directories.futures == []


@pytest.mark.parametrize("seed", [8, 32, 41])
def test_what_a_copy_had_is_not_missed_in_the_next_log_of_its_name(seed: int) -> None:
    """Goal: a topic is deleted, and made again on the disk of a copy. A power cut takes the new
    name of the copy back and leaves the directory of the new log."""
    bench = copied()
    directories = bench.env.directories
    directories.online[2].checkpoint_recovery_points()
    bench.carry_out()
    directories.schedule_delete(PARTITION)
    directories.create(PARTITION, TopicId(b"n" * 16), bench.config, IDS[2])
    prng = Prng(seed)
    for disk in bench.disks:
        disk.crash(prng)
    bench.open()
    assert not bench.env.directories.damaged


def test_a_damaged_copy_alone_does_not_count_either() -> None:
    """Goal: no empty log is made that counts as complete, where an operator has replaced the disk
    with the log, the metadata names that of the copy, and the start has dropped it."""
    bench = MoveBench()
    bench.append(30)
    bench.request(2)
    while bench.said != IDS[2]:
        bench.turn()
    assert bench.place == 1
    bench.env.directories.online[2].checkpoint_recovery_points()
    bench.carry_out()
    (name,) = bench.names(2)
    bench.disks[2].flip_bit(f"{name}/{0:020}.log", 8 * 200)
    bench.open(offline=(1,))
    directories = bench.env.directories
    assert directories.futures == [] and directories.has_lost_original(PARTITION, IDS[2])
    directories.create(PARTITION, TOPIC_ID, bench.config, IDS[2])
    assert not directories.has_lost_original(PARTITION, IDS[2])


def test_a_directory_that_failed_in_this_turn_is_not_moved_from() -> None:
    """Its replicas are not out of service yet, and a step of a move found the log nowhere."""
    for turns in range(12):
        bench = MoveBench()
        bench.append(3)
        bench.request(2)
        for _ in range(turns):
            bench.turn()
        if bench.place == 2:
            break
        directories = bench.env.directories
        directories.fail(directories.online[1], "another replica met an error")
        bench.tick()
        assert bench.partition.log.log_end_offset == 3
    assert turns > 2


def test_a_copy_does_not_go_on_behind_what_was_cleaned_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Goal: no deleted key comes back. The log was compacted while the disk with a part of it was
    missing, and its tombstones may be gone; the copy had what they delete."""
    bench = under_way(monkeypatch)
    bench.configure(cleanup_policy=frozenset({"compact"}))
    bench.log.request_flush()
    bench.carry_out()
    bench.open(offline=(2,))
    bench.begin_process()
    bench.append()
    bench.clean()
    bench.restart()
    bench.append()
    expected = bench.records
    assert len(expected) < 20 and copied_to(bench) > 2
    assert bench.ends_on(2) and bench.records == expected


@pytest.mark.parametrize("power_cut", [False, True])
def test_gaps_move_with_their_log(power_cut: bool) -> None:
    """The process dies when the former log has its last name, and before any checkpoint of the new
    directory has the log. The log that was left was cut at its first gap."""
    bench = MoveBench()
    for base_offset in (0, 5, 6, 9):
        bench.log.append_as_follower(stamp(batch(), base_offset, 0), 0)
    bench.log.update_high_watermark(10)
    bench.log.request_flush()
    bench.carry_out()

    def witness(operation: Operation, path: str) -> None:
        if operation is Operation.REPLACE and bench.names(1) != [str(PARTITION)]:
            raise ProcessKilled(path)

    bench.watch(witness)
    assert bench.request(2) is ErrorCode.NONE
    with pytest.raises(ProcessKilled):
        bench.turns()
    bench.watch(None)
    assert bench.names(2) == [str(PARTITION)]
    bench.restart(power_cut=power_cut)
    assert bench.log.log_end_offset == 10


def raised(log_start: int) -> MoveBench:
    """A complete copy of a log whose start has risen behind the start of the copy."""
    bench = copied()
    bench.log.maybe_raise_log_start_offset(log_start)
    bench.turns(20)
    bench.env.directories.online[1].checkpoint_log_start_offsets()
    bench.carry_out()
    return bench


def test_a_log_start_moves_with_its_log() -> None:
    """Goal: a kill behind the end of the move does not bring records back whose deletion was
    durable in the former directory."""
    bench = raised(20)
    bench.obeys = True
    assert bench.ends_on(2)
    bench.restart()
    assert bench.log.log_start_offset == 20


def test_a_former_log_start_does_not_count_for_what_a_copy_has_below() -> None:
    """Goal: the copy's directory has saved a log start, and the log was cut below it since. A power
    cut behind the move emptied the log, which begins below what was saved."""
    bench = raised(20)
    bench.env.directories.online[2].checkpoint_log_start_offsets()
    bench.carry_out()
    bench.log.truncate_to(5)
    bench.begin_term()
    bench.append(10)
    bench.obeys = True
    assert bench.ends_on(2)
    expected = bench.records
    bench.restart(power_cut=True)
    assert bench.records == expected and len(expected) == 10


def test_a_log_start_that_was_saved_of_a_copy_is_read_with_it() -> None:
    """Goal: it does not come back later. The process died when no recovery point of the copy was
    saved; the log has an earlier start, and what was written there would be dropped."""
    bench = copied()
    bench.log.maybe_raise_log_start_offset(20)
    bench.turns(20)
    bench.restart()
    bench.obeys = True
    assert bench.log.log_start_offset == 0 and bench.ends_on(2)
    bench.log.truncate_to(5)
    bench.env.directories.checkpoint_recovery_points()
    bench.begin_term()
    bench.append(20)
    bench.carry_out()
    expected = bench.records
    bench.restart()
    assert bench.records == expected


@pytest.mark.parametrize("seed", range(6))
def test_the_former_directorys_log_start_does_not_count_for_the_new_one(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A slow disk is asked to save a log start, and answers when the replica has moved away from
    it. The new log's segments below went by that answer, and a power cut that brought some of them
    back left a log that read as damaged: its own directory had no log start of it."""
    monkeypatch.setattr(moves, "MOVE_BYTES_PER_TURN", 400)
    bench = MoveBench()
    directories, retention = bench.env.directories, Retention(bench.env)
    bench.obeys = False
    bench.append(30)
    bench.request(2)
    bench.turns()
    bench.log.maybe_raise_log_start_offset(20)
    starts = retention.log_starts_to_save([bench.partition])
    assert starts
    directories.online[1].checkpoint_log_start_offsets()
    bench.obeys = True
    bench.turns()
    assert bench.place == 2
    directories.checkpoint_recovery_points()
    bench.carry_out()
    retention.on_log_starts_saved(LogStartsSaved(IDS[1], tuple(starts)), bench.now)
    retention.work(bench.now, WALL_MS)
    bench.disks[2].crash(Prng(seed))
    bench.open()
    assert not bench.env.directories.damaged

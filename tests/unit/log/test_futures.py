"""Future logs on their disk: names, checkpoints, and what a start makes of them."""

from tests.unit.log.harness import PARTITION, TOPIC_ID, WALL_MS, LogBench, batch
from tidelog.log.checkpoint import RECOVERY_POINT_FILE, CleanShutdown, decode_offsets
from tidelog.log.futures import has_room_for_name
from tidelog.log.log import Log
from tidelog.log.pieces import finish
from tidelog.model import TopicPartition

MOVING = TopicPartition("moving", 0)


def copy_in(bench: LogBench) -> Log:
    return bench.directory.futures.logs[MOVING].log


def with_copy(records: int = 3) -> LogBench:
    """A directory with a copy of a log that is elsewhere."""
    bench = LogBench()
    log = bench.directory.futures.create(MOVING, TOPIC_ID, bench.config).log
    for number in range(records):
        log.append_as_leader(batch(), 0, WALL_MS + number)
    return bench


def test_a_copy_has_a_name_of_its_own_and_is_in_the_checkpoints() -> None:
    bench = with_copy()
    assert copy_in(bench).path == f"{MOVING}.{1:032x}-future"
    assert MOVING not in bench.directory.logs
    bench.directory.close_cleanly(CleanShutdown(1))
    bench.effects.take()
    claims = decode_offsets(bench.disk.read_file(RECOVERY_POINT_FILE) or b"")
    assert claims.get(MOVING, 0) == 0 and PARTITION in bench.directory.logs


def test_a_start_finds_the_copy_and_drops_a_second_one() -> None:
    bench = with_copy()
    bench.reopen_after_kill()
    assert copy_in(bench).log_end_offset == 3 and copy_in(bench).ledger.is_future
    bench.disk.make_dir(f"{MOVING}.{9:032x}-future")
    bench.reopen_after_kill()
    assert list(bench.directory.futures.logs) == [MOVING]
    assert [name for name in bench.disk.list_dir() if name.endswith("-delete")] != []


def test_a_damaged_copy_is_dropped() -> None:
    """It is not out of service, as a log would be: the original is whole."""
    bench = with_copy()
    log = copy_in(bench)
    log.request_flush()
    bench.settle()
    log.recovery_point = 3
    bench.directory.checkpoint_recovery_points()
    bench.settle()
    bench.disk.flip_bit(f"{log.path}/{0:020d}.log", 8 * 70)
    bench.reopen_after_kill()
    assert not bench.directory.futures.logs and not bench.directory.damaged


def test_a_copy_with_the_plain_name_is_a_log() -> None:
    """Its files stay open and are written on under their new paths."""
    bench = with_copy()
    log = bench.directory.futures.promote(MOVING)
    log.append_as_leader(batch(), 1, WALL_MS)
    log.prepare_close(sync_later=True)
    assert log.segments.active.file.path == f"{MOVING}/{0:020d}.log"
    assert bench.disk.exists(f"{MOVING}/{4:020d}.snapshot")
    bench.reopen_after_kill()
    assert bench.directory.logs[MOVING].log_end_offset == 4


def test_a_replaced_log_keeps_its_claims_until_it_goes() -> None:
    bench = LogBench()
    bench.append(count=5)
    bench.log.request_flush()
    bench.settle()
    bench.directory.retire(PARTITION)
    bench.directory.checkpoint_recovery_points()
    bench.settle()
    assert decode_offsets(bench.disk.read_file(RECOVERY_POINT_FILE) or b"") == {PARTITION: 5}
    futures = bench.directory.futures
    assert not futures.is_free(PARTITION)
    futures.drop_replaced(PARTITION)
    assert not futures.is_free(PARTITION) and not bench.disk.exists(str(PARTITION))
    finish(bench.directory.forget_renamed())
    bench.settle()
    assert bench.directory.clear_renamed(1) == 1 and futures.is_free(PARTITION)


def test_names_have_to_fit() -> None:
    assert has_room_for_name(TopicPartition("t" * 213, 0))
    assert not has_room_for_name(TopicPartition("t" * 214, 0))

"""Checkpoints at a start: which logs their entries count for."""

import pytest

from tests.unit.log.harness import (
    PARTITION,
    TOPIC_ID,
    WALL_MS,
    LogBench,
    batch,
    deleted_and_made_anew,
    file_of,
    read_all,
)
from tidelog.config import LogConfig
from tidelog.log.checkpoint import (
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    RECOVERY_POINT_FILE,
    decode_offsets,
)
from tidelog.log.pieces import finish
from tidelog.model import TopicPartition
from tidelog.records.batch import stamp


def test_the_checkpoints_of_a_deleted_log_say_nothing_of_its_successor() -> None:
    """Goal: a topic that is made anew under the same name begins with no high watermark, no log
    start and no recovery point, also after a power cut."""
    bench = deleted_and_made_anew()
    finish(bench.directory.forget_renamed())
    bench.append()
    bench.log.request_flush()
    bench.settle()
    log = bench.reopen_after_power_cut()
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 0, 1)


def test_checkpoints_older_than_a_deletion_say_nothing_of_the_successor() -> None:
    """Goal: the same when the process ends before the checkpoints that follow a deletion are
    written, as a slow disk makes likely (seed cluster all 779)."""
    bench = deleted_and_made_anew()
    bench.append(count=7)
    log = bench.reopen_after_kill()
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 0, 7)


def test_checkpoints_that_are_written_during_a_start_keep_what_is_known_of_logs_to_be_opened() -> (
    None
):
    """Goal: a power cut then, or later, finds no gap in a log that was never cleaned. Method: the
    node writes all of them after its first log (seed cluster all 4, when deleted logs were first
    taken out of the checkpoints during a start)."""
    bench = LogBench()
    others = [TopicPartition("orders", number) for number in range(3)]
    for key in others:
        bench.directory.create(key, TOPIC_ID, bench.config)
    for number, (_, log) in enumerate(sorted(bench.directory.logs.items())):
        log.cleaned_to = number
        log.append_as_leader(batch(5), 2, WALL_MS)
        log.update_high_watermark(number)
    bench.stop()
    before = {name: bench.disk.read_file(name) for name in (CLEANER_FILE, HIGH_WATERMARK_FILE)}
    directory = bench._open(most_work=1)
    while not directory.logs:
        directory.load(1)
    assert not directory.is_loaded
    directory.checkpoint_recovery_points()
    directory.checkpoint_high_watermarks()
    bench.settle()
    assert {name: bench.disk.read_file(name) for name in before} == before


def test_a_damaged_checkpoint_means_full_recovery() -> None:
    """Goal: nonsense in a checkpoint never stops a node and never skips recovery."""
    bench = LogBench(LogConfig(segment_bytes=400))
    for _ in range(10):
        bench.append()
    bench.settle()
    for name in ("recovery-point", "replication", "log-start"):
        bench.disk.replace(f"{name}-offset-checkpoint", b"junk")
    log = bench.reopen_after_kill()
    assert (log.log_end_offset, log.high_watermark, log.log_start_offset) == (10, 0, 0)
    assert log.max_timestamp() is not None and log.max_timestamp()[0] == WALL_MS  # type: ignore[index]


def test_after_a_clean_stop_the_high_watermark_says_where_a_log_ended_at_least() -> None:
    """Goal: the last segment is gone, and so are the recovery points: nothing that was committed
    is taken for never written (seed cluster all 1477582145)."""
    bench = LogBench(LogConfig(segment_bytes=400))
    for _ in range(10):
        bench.append()
    bench.settle()
    bench.log.update_high_watermark(10)
    last = f"{PARTITION}/{bench.log.segments.active.base_offset:020}.log"
    bench.stop()
    bench.disk.delete(last)
    bench.disk.replace("recovery-point-offset-checkpoint", b"junk")
    bench.directory = bench._open()
    assert PARTITION in bench.directory.damaged


OTHER = TopicPartition("orders", 4)


def _damaged_without_recovery_points(damage: str) -> tuple[LogBench, bytes]:
    """A start has found a log of ten records damaged, and the recovery points lost; another log is
    sound. Returns the intact file too."""
    bench = LogBench()
    bench.directory.create(OTHER, TOPIC_ID, bench.config).append_as_leader(batch(), 0, WALL_MS)
    for _ in range(10):
        bench.append()
    bench.log.request_flush()
    bench.settle()
    # As on a follower, which learns of it later than its leader.
    bench.log.update_high_watermark(3)
    bench.stop()
    path = file_of(0, ".log")
    intact = bench.disk.read_file(path)
    assert intact is not None
    if damage == "bit":
        bench.disk.delete(".kafka_cleanshutdown")
        bench.disk.flip_bit(path, 8 * len(intact) // 2)
    elif damage == "end":
        bench.disk.replace(path, intact[:-7])
    else:
        bench.disk.delete(path)
    bench.disk.delete(RECOVERY_POINT_FILE)
    with pytest.raises(KeyError):
        bench.reopen()
    bench.settle()
    return bench, intact


@pytest.mark.parametrize("stop", ["kill", "power cut", "clean"])
@pytest.mark.parametrize("damage", ["bit", "end", "file"])
def test_damage_outlives_the_loss_of_the_recovery_points(damage: str, stop: str) -> None:
    """LostBeforeCut. Goal: the next starts do not take it for a torn tail, and what the first one
    has found sound is. Steps: the checkpoint is lost and the log is damaged; a start finds that and
    writes the checkpoint anew; a second start."""
    bench, _ = _damaged_without_recovery_points(damage)
    found = bench.directory.damaged[PARTITION]
    for _ in range(2):
        bench.directory.logs[OTHER].append_as_leader(batch(), 0, WALL_MS)
        ends = decode_offsets(bench.disk.read_file(RECOVERY_POINT_FILE) or b"")
        assert ends[OTHER] < 10 < ends[PARTITION] < (1 << 63), "an offset that Kafka reads"
        if stop == "clean":
            bench.stop()
        bench.effects.take()
        if stop == "power cut":
            bench.disk.crash()
        bench.directory = bench._open()
        bench.settle()
        again = bench.directory.damaged
        assert list(again) == [PARTITION]
        assert again[PARTITION].base_offset == found.base_offset
        assert list(bench.directory.logs) == [OTHER]


@pytest.mark.parametrize("stop", ["kill", "clean"])
@pytest.mark.parametrize("before", ["deleted", "begun anew", "recovery points lost"])
def test_a_missing_directory_is_damage_if_an_offset_was_used(before: str, stop: str) -> None:
    """Goal: no new log begins at 0 in its place, not at the second start either. One witness is
    enough: the recovery point of records that were deleted, the log start of a log that never had
    one, the high watermark where the recovery points are lost too."""
    bench = LogBench()
    if before == "begun anew":
        bench.log.truncate_fully_and_start_at(10)
    else:
        bench.append(count=10)
        bench.log.update_high_watermark(10)
    if before == "deleted":
        bench.log.maybe_raise_log_start_offset(10)
    if stop == "clean":
        bench.stop()
    else:
        bench.log.request_flush()
        finish(bench.directory._checkpoint_all())
        bench.settle()
    bench.disk.delete(str(PARTITION))
    if before == "recovery points lost":
        bench.disk.replace(RECOVERY_POINT_FILE, b"")
        # With no log at all a missing file is that of a first start.
        bench.disk.make_dir(str(OTHER))
    for _ in range(2):
        bench.effects.take()
        bench.directory = bench._open()
        assert list(bench.directory.damaged) == [PARTITION]
        finish(bench.directory._checkpoint_all())
        bench.settle()


@pytest.mark.parametrize("damage", ["end", "directory"])
def test_damage_outlives_a_clean_stop_before_the_recovery_points_are_lost(damage: str) -> None:
    """LostBeforeCut. Goal: what a start has found damaged is not sound for a later one, nor made
    anew. Steps: damage, a start, a clean stop, the checkpoint is damaged, a start."""
    bench = LogBench()
    bench.append(count=10)
    bench.append(count=10)
    bench.log.update_high_watermark(20)
    bench.stop()
    path = file_of(0, ".log")
    if damage == "end":
        # The second of two batches of one size.
        data = bench.disk.read_file(path) or b""
        bench.disk.replace(path, data[: len(data) // 2])
    else:
        while bench.disk.delete_some(str(PARTITION), 10):
            pass
    for _ in range(2):
        with pytest.raises(KeyError):
            bench.reopen()
        assert bench.directory.damaged.keys() == {PARTITION}
        bench.stop()
        bench.disk.replace(RECOVERY_POINT_FILE, b"damaged")


def test_a_damaged_log_keeps_its_start() -> None:
    """Goal: once its records are back, those that were deleted are not. Method: two starts find it
    damaged, and write the checkpoints; then the operator puts the file back."""
    bench = LogBench()
    bench.append(count=4)
    bench.append(count=6)
    bench.log.update_high_watermark(10)
    bench.log.maybe_raise_log_start_offset(7)
    bench.stop()
    intact = bench.disk.read_file(file_of(0, ".log"))
    assert intact is not None
    bench.disk.replace(file_of(0, ".log"), intact[:-7])
    for _ in range(2):
        with pytest.raises(KeyError):
            bench.reopen_after_kill()
        finish(bench.directory._checkpoint_all())
        bench.settle()
    bench.disk.replace(file_of(0, ".log"), intact)
    assert bench.reopen_after_kill().log_start_offset == 7


def test_a_log_that_is_intact_again_is_sound_though_its_end_was_unknown() -> None:
    """Goal: the operator has put the file back. From then on a torn tail is one again."""
    bench, intact = _damaged_without_recovery_points("bit")
    bench.disk.replace(file_of(0, ".log"), intact)
    bench.reopen_after_kill()
    assert read_all(bench.log) == intact
    bench.settle()
    bench.append()
    bench.log.segments.active.file.truncate(len(intact) + 7)
    assert bench.reopen_after_kill().log_end_offset == 10


def test_a_checkpoint_during_a_start_does_not_call_unread_logs_never_durable() -> None:
    """Goal: the recovery points are lost, and a start that has written them anew ends before it has
    read all logs: their damage is found by the next."""
    bench = LogBench()
    bench.append(count=5)
    bench.append(count=5)
    bench.directory.create(OTHER, TOPIC_ID, bench.config)
    bench.settle()
    bench.disk.delete(RECOVERY_POINT_FILE)
    bench.disk.flip_bit(file_of(0, ".log"), 8 * 100)
    bench.effects.take()
    bench.directory = bench._open(most_work=0)
    bench.directory.checkpoint_recovery_points()
    bench.settle()
    assert bench.disk.exists(RECOVERY_POINT_FILE)
    bench.directory = bench._open()
    assert list(bench.directory.damaged) == [PARTITION]


def with_gaps(bench: LogBench) -> LogBench:
    """The log has gaps that were fetched, and the checkpoints know of them."""
    for base_offset in (0, 5, 6, 9):
        bench.log.append_as_follower(stamp(batch(), base_offset, 0), 0)
    bench.log.update_high_watermark(10)
    bench.log.request_flush()
    bench.settle()
    bench.directory.checkpoint_recovery_points()
    bench.settle()
    return bench


def test_gaps_are_known_beside_a_renamed_directory() -> None:
    """The replica was reassigned, and has come back before the files of the former log are gone.
    After a crash no entry of that name counts, and the log was cut at its first gap."""
    bench = LogBench()
    bench.directory.schedule_delete(PARTITION)
    bench.directory.create(PARTITION, TOPIC_ID, bench.config)
    with_gaps(bench)
    assert [name for name in bench.disk.list_dir() if name.endswith("-delete")] != []
    assert bench.reopen_after_kill().log_end_offset == 10


@pytest.mark.parametrize("stop", ["cleanly", "killed"])
def test_gaps_are_known_without_the_checkpoint_of_the_cleaner(stop: str) -> None:
    """One missing file made damage of every gap."""
    bench = with_gaps(LogBench())
    if stop == "cleanly":
        bench.stop()
    bench.disk.delete(CLEANER_FILE)
    assert bench.reopen_after_kill().log_end_offset == 10
    assert bench.log.cleaned_to == 0

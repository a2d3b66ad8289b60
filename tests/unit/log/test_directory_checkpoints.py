"""Checkpoints at a start: which logs their entries count for."""

from tests.unit.log.harness import (
    PARTITION,
    TOPIC_ID,
    WALL_MS,
    LogBench,
    batch,
    deleted_and_made_anew,
)
from tidelog.config import LogConfig
from tidelog.log.checkpoint import CLEANER_FILE, HIGH_WATERMARK_FILE
from tidelog.log.pieces import finish
from tidelog.model import TopicPartition


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

"""Checkpoints at a start: which logs their entries count for."""

from tests.unit.log.harness import PARTITION, WALL_MS, LogBench, deleted_and_made_anew
from tidelog.config import LogConfig


def test_the_checkpoints_of_a_deleted_log_say_nothing_of_its_successor() -> None:
    """Goal: a topic that is made anew under the same name begins with no high watermark, no log
    start and no recovery point, also after a power cut."""
    bench = deleted_and_made_anew()
    bench.directory.forget_renamed()
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

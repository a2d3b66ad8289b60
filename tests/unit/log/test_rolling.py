"""Rolling: when a segment is sealed, and that it is flushed."""

from tests.unit.log.harness import PARTITION, WALL_MS, LogBench, batch
from tidelog.config import LogConfig
from tidelog.env.prng import Prng
from tidelog.records.batch import stamp


def test_sealing_flushes_by_itself() -> None:
    """Goal: a roll makes the sealed segment durable and writes a snapshot at the new base."""
    bench = LogBench()
    bench.append(count=3)
    bench.roll()
    bench.settle()
    assert bench.log.recovery_point == 3
    assert bench.disk.exists(f"{PARTITION}/00000000000000000003.snapshot")
    assert bench.disk.exists(f"{PARTITION}/00000000000000000000.timeindex")


def test_time_rolls_a_segment() -> None:
    """Goal: segment.ms counts from the first batch's timestamp to the incoming one's."""
    bench = LogBench(LogConfig(segment_ms=1_000))
    bench.append(timestamp=WALL_MS)
    bench.append(timestamp=WALL_MS + 1_000)
    assert len(bench.log.segments) == 1
    bench.append(timestamp=WALL_MS + 1_001)
    assert len(bench.log.segments) == 2


def test_a_segment_that_begins_in_a_gap_survives_a_kill() -> None:
    """A follower fetches what its leader's cleaner has left, and rolls where records are missing.
    Before the next checkpoint of recovery points the process dies; its files do not."""
    bench = LogBench(LogConfig(cleanup_policy=("compact",), segment_bytes=100))
    bench.directory.checkpoint_recovery_points()
    bench.settle()
    for base_offset in (0, 2, 5, 9):
        bench.log.append_as_follower(stamp(batch(2), base_offset, 0), WALL_MS)
    assert [segment.base_offset for segment in bench.log.segments] == [0, 2, 4, 7]
    assert bench.reopen_after_kill().log_end_offset == 11
    assert [segment.base_offset for segment in bench.log.segments] == [0, 2, 4, 7]


def test_a_log_that_was_never_flushed_begins_with_its_first_segment() -> None:
    """A power cut took the name of the first one and left that of the second, with records."""
    for seed in (143, 2755):
        bench = LogBench(LogConfig(segment_bytes=200))
        for _ in range(3):
            bench.append(count=2)
        bench.effects.take()
        bench.disk.crash(Prng(seed))
        if bench.disk.exists(str(PARTITION)):
            assert bench.reopen().segments.first_base_offset == 0, seed

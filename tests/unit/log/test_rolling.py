"""Rolling: when a segment is sealed, and that it is flushed."""

from tests.unit.log.harness import PARTITION, WALL_MS, LogBench
from tidelog.config import LogConfig


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

"""A log that has to be walked is opened in pieces, and an end between two of them costs nothing."""

from collections import Counter

import pytest

from tests.unit.log.harness import PARTITION, WALL_MS, LogBench, read_all
from tidelog.config import LogConfig
from tidelog.env.effects import EffectQueue
from tidelog.env.memory_disk import MemoryDisk, Operation
from tidelog.env.trace import Trace, TraceList
from tidelog.limits import BATCH_WALKING_WORK
from tidelog.log.directory import LogDirectory

BATCHES = 400
WORK = 1000


class _CountingDisk(MemoryDisk):
    """Counts what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[Operation] = Counter()

    def begin(self, operation: Operation, path: str) -> None:
        self.asked[operation] += 1
        super().begin(operation, path)


def _written(segment_bytes: int) -> tuple[_CountingDisk, bytes]:
    """A disk with a log of hundreds of batches, all durable, of which no checkpoint knows."""
    disk = _CountingDisk()
    bench = LogBench(LogConfig(segment_bytes=segment_bytes), disk)
    for _ in range(BATCHES):
        bench.append()
    bench.log.request_flush()
    bench.settle()
    content = read_all(bench.log)
    disk.delete("recovery-point-offset-checkpoint")
    disk.replace("recovery-point-offset-checkpoint", b"0\n0\n")
    return disk, content


def _open(disk: MemoryDisk, segment_bytes: int, most_work: int) -> LogDirectory:
    return LogDirectory.open(
        disk,
        effects=EffectQueue(),
        trace=Trace(TraceList()),
        default_config=LogConfig(segment_bytes=segment_bytes),
        wall_ms=WALL_MS,
        most_work=most_work,
    )


@pytest.mark.parametrize("segment_bytes", [500, 1 << 20])
@pytest.mark.parametrize("ends_in_power_cut", [False, True])
def test_a_turn_of_a_start_is_bounded(segment_bytes: int, ends_in_power_cut: bool) -> None:
    """Goal: a log with many segments, or with many batches in one, takes many turns of little work.
    It is in service when all of it was read; a start that ends before is as if it never began."""
    disk, content = _written(segment_bytes)
    turns, ends_at = 0, 3
    while True:
        directory = _open(disk, segment_bytes, WORK)
        turns = 1
        while directory.has_logs_to_load and turns != ends_at:
            assert PARTITION not in directory.logs
            disk.asked.clear()
            directory.load(WORK)
            turns += 1
            assert disk.asked.total() < WORK // 4, disk.asked
        if not directory.has_logs_to_load:
            break
        ends_at += 5
        if ends_in_power_cut:
            disk.crash()
    assert turns > BATCHES * BATCH_WALKING_WORK // WORK
    log = directory.logs[PARTITION]
    log.check()
    assert (log.log_end_offset, read_all(log)) == (BATCHES, content)
    assert directory.is_loaded

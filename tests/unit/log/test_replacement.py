"""Replacement of segments: what a start finishes and what it undoes."""

from dataclasses import replace

from tests.unit.log.harness import PARTITION, LogBench, batch, file_of, read_all
from tidelog.config import LogConfig
from tidelog.env.effects import EffectQueue
from tidelog.env.memory_disk import MemoryDisk
from tidelog.env.trace import Trace, TraceList
from tidelog.limits import FILE_DELETION_WORK
from tidelog.log.checkpoint import CleanShutdown
from tidelog.log.replacement import finish_swaps
from tidelog.log.values import LogEnv
from tidelog.records.batch import stamp

SMALL = LogConfig(segment_bytes=700, index_interval_bytes=200)


def test_an_unfinished_compaction_is_undone_and_a_finished_one_completed() -> None:
    """Goal: .cleaned and .deleted go; .swap takes the place of the segments it covers."""
    bench = LogBench(replace(SMALL, cleanup_policy="compact"))
    for _ in range(30):
        bench.append()
    bases = [segment.base_offset for segment in bench.log.segments]
    bench.settle()
    bench.directory.close_cleanly(CleanShutdown(1))
    bench.settle()
    disk = bench.disk
    last_of_second = bases[2] - 1
    compacted = stamp(batch(), last_of_second, 0)
    disk.replace(file_of(0, ".log") + ".swap", compacted)
    disk.replace(file_of(bases[3], ".log") + ".cleaned", b"half")
    disk.replace(file_of(5, ".log") + ".deleted", b"old")
    log = bench.reopen()
    assert [segment.base_offset for segment in log.segments] == [0, *bases[2:]]
    assert log.read(0, 1 << 20, 30, at_least_one=True).first_offset == last_of_second
    assert not [name for name in disk.list_dir(str(PARTITION)) if name.endswith(("ed", "swap"))]
    log.check()


def test_a_round_that_is_not_complete_changes_nothing() -> None:
    """Goal: a `.cleaned` shows that a `.swap` at or above it is of an incomplete round."""
    bench = LogBench(replace(SMALL, cleanup_policy="compact"))
    for _ in range(30):
        bench.append()
    before = read_all(bench.log)
    bases = [segment.base_offset for segment in bench.log.segments]
    bench.stop()
    bench.disk.replace(file_of(bases[1], ".log") + ".cleaned", b"half")
    bench.disk.replace(file_of(bases[2], ".log") + ".swap", stamp(batch(), bases[2], 0))
    log = bench.reopen()
    assert [segment.base_offset for segment in log.segments] == bases
    assert read_all(log) == before


def test_many_replaced_files_are_deleted_in_pieces() -> None:
    """BoundedTurn: a node that ended before it deleted them finds hundreds at its start."""
    disk = MemoryDisk()
    disk.make_dir(str(PARTITION))
    for number in range(100):
        disk.replace(file_of(number, ".log") + ".deleted", b"old")
    env = LogEnv(disk, EffectQueue(), Trace(TraceList()))
    assert list(finish_swaps(env, str(PARTITION))) == [FILE_DELETION_WORK] * 100
    assert disk.list_dir(str(PARTITION)) == []

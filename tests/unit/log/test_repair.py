"""Repair: what is kept of a damaged log."""

import pytest

from tests.unit.log.cleaning.bench import CleaningBench
from tests.unit.log.harness import PARTITION, TOPIC_ID, LogBench
from tidelog.config import LogConfig
from tidelog.errors import LogDamaged
from tidelog.log.checkpoint import CLEANER_FILE
from tidelog.log.pieces import finish


def test_what_a_repair_keeps_is_durable_before_it_is_claimed() -> None:
    """Goal: the flushes that were under way are skipped when the damaged log is closed.
    Method: damage is met in the newest segment, it is cut, and the power goes."""
    bench = LogBench(LogConfig(segment_bytes=200))
    bench.append(count=2)
    bench.log.request_flush()
    bench.settle()
    for _ in range(5):
        bench.append(count=2)
    last = bench.log.segments[-1].base_offset
    bench.directory.quarantine(PARTITION, LogDamaged("a bad batch", last))
    bench.settle()
    log = finish(bench.directory.repaired(PARTITION, TOPIC_ID, bench.config))
    assert log.recovery_point == log.log_end_offset == last > 0
    bench.settle()
    assert bench.reopen_after_power_cut().log_end_offset == last
    assert not bench.directory.damaged


@pytest.mark.parametrize("keeps", [False, True])
def test_no_segment_of_a_replacement_that_was_interrupted_outlives_a_repair(keeps: bool) -> None:
    """A cleaner's new segment had `.swap` behind its name when damage was met in another one. The
    repair removed the log, and the new segment took its place in what was left: a log that began
    there, and lacked all before it."""
    bench = CleaningBench(segment_bytes=300)
    for number in range(12):
        bench.put((b"key-%d" % number, b"v" * 90))
    bench.put((b"key-11", b"again"))
    bench.commit_all()
    bench.begin()
    cleaning = bench.round
    assert cleaning is not None
    swapped = ""
    while not swapped or swapped.startswith("0" * 20):
        cleaning.step(7)
        bench.settle()
        names = bench.disk.list_dir(str(PARTITION))
        swaps = [name.removesuffix(".swap") for name in names if name.endswith(".log.swap")]
        swapped = next((name for name in swaps if name not in names), "")
    bad = int(swapped[:20]) if keeps else bench.log.segments[1].base_offset
    bench.directory.quarantine(PARTITION, LogDamaged("a bad batch", bad))
    cleaning.abandon()
    bench.round = None
    bench.settle()
    if not keeps:
        bench.directory.doubt_all(PARTITION)
    log = finish(bench.directory.repaired(PARTITION, TOPIC_ID, bench.config))
    log.check()
    assert (log.log_start_offset, log.log_end_offset) == (0, bad if keeps else 0)


def test_a_damaged_log_with_gaps_is_known_to_have_been_cleaned() -> None:
    """Nothing of it is to be kept. The log itself said so, and the checkpoint of the cleaner came a
    minute later: the process died in between, and the topic's policy was another one by then."""
    bench = LogBench(LogConfig(segment_bytes=200))
    for _ in range(4):
        bench.append(count=2)
    bench.log.note_gaps()
    bench.log.request_flush()
    bench.directory.checkpoint_recovery_points()
    bench.settle()
    bench.directory.checkpoint_recovery_points()
    bench.settle()
    bench.disk.delete(CLEANER_FILE)
    last = max(name for name in bench.disk.list_dir(str(PARTITION)) if name.endswith(".log"))
    bench.disk.delete(f"{PARTITION}/{last}")
    bench.directory = bench._open()
    assert bench.directory.damaged[PARTITION].checkpoints.cleaned_to == 0


def test_what_is_written_to_a_repaired_log_outlives_a_kill_below_its_former_start() -> None:
    """Nothing was left of it, so it began at 0. The checkpoint had the former log start for up to a
    minute, and a start emptied the log."""
    bench = LogBench(LogConfig(segment_bytes=200))
    for _ in range(4):
        bench.append(count=2)
    bench.log.request_flush()
    bench.log.update_high_watermark(8)
    bench.log.maybe_raise_log_start_offset(5)
    bench.directory.checkpoint_log_start_offsets()
    bench.directory.checkpoint_recovery_points()
    bench.settle()
    bench.directory.quarantine(PARTITION, LogDamaged("a bad batch", 4))
    bench.directory.doubt_all(PARTITION)
    finish(bench.directory.repaired(PARTITION, TOPIC_ID, bench.config))
    bench.settle()
    bench.append(count=2)
    log = bench.reopen_after_kill()
    assert (log.log_start_offset, log.log_end_offset) == (0, 2)

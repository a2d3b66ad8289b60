"""Retention of one log against a model that looks at records; and the jitter of rolls."""

from dataclasses import replace

import pytest

from tests.unit.log.harness import WALL_MS, LogBench, batch, read_all
from tidelog.config import LogConfig
from tidelog.env.prng import Prng
from tidelog.log.retention import decide_log_start, maybe_retain
from tidelog.records.batch import iter_headers

SMALL = LogConfig(segment_bytes=700, index_interval_bytes=200, retention_ms=-1)


def filled(count: int, config: LogConfig = SMALL) -> LogBench:
    """So many batches, one second apart, all committed; the last at `WALL_MS + count` seconds."""
    bench = LogBench(config)
    for number in range(1, count + 1):
        bench.append(timestamp=WALL_MS + 1000 * number)
    bench.log.update_high_watermark(bench.log.log_end_offset)
    return bench


def expected_start(bench: LogBench, wall_ms: int) -> int:
    """The model: takes segments off one by one, and looks at every record of each."""
    log, config = bench.log, bench.log.config
    start = log.log_start_offset
    segments = list(log.segments)
    ends = [*(segment.base_offset for segment in segments[1:]), log.log_end_offset]
    for segment, end in zip(segments, ends, strict=True):
        headers = [scanned.header for scanned in segment.batches.scan()]
        if end <= start:
            continue
        live = [one for one in segments if one.base_offset >= segment.base_offset]
        left_bytes = sum(one.size_bytes for one in live[1:])
        too_large = 0 <= config.retention_bytes <= left_bytes
        newest = max((header.max_timestamp for header in headers), default=wall_ms)
        too_old = 0 <= config.retention_ms < wall_ms - newest
        if not headers or end > log.high_watermark or not (too_large or too_old):
            break
        start = end
    return start


@pytest.mark.parametrize("seed", range(40))
def test_a_log_keeps_what_the_model_keeps(seed: int) -> None:
    """Drawn sizes, times, watermarks and looks; time and size at once."""
    prng = Prng(seed)
    bench = LogBench(SMALL)
    wall_ms = WALL_MS
    for _ in range(60):
        wall_ms += prng.choice((0, 10, 5000))
        ahead_ms = prng.choice((0, 0, -3000, 20_000))
        bench.append(count=prng.between(1, 4), timestamp=wall_ms + ahead_ms)
        if prng.chance(1, 3):
            log = bench.log
            log.update_high_watermark(prng.between(log.high_watermark, log.log_end_offset))
        if prng.chance(1, 6):
            bench.configure(
                retention_ms=prng.choice((-1, 1, 6000, 40_000)),
                retention_bytes=prng.choice((-1, 0, 900, 2500)),
            )
            before, expected = bench.log.log_start_offset, expected_start(bench, wall_ms)
            assert maybe_retain(bench.log, wall_ms) == (expected > before)
            assert bench.log.log_start_offset == expected
            bench.log.set_segments_aside(expected, prng.between(1, 3))
            bench.log.check()


def test_segments_that_are_all_too_old_go_with_the_active_one() -> None:
    """An empty one takes its place, and appends go on."""
    bench = filled(20, replace(SMALL, retention_ms=5000))
    assert maybe_retain(bench.log, WALL_MS + 26_000)
    log = bench.log
    assert (log.log_start_offset, log.segments.active.base_offset) == (20, 20)
    assert bench.append() == 20
    log.request_flush()
    bench.settle()
    assert bench.reopen_after_power_cut().log_end_offset == 21


def test_nothing_goes_above_the_high_watermark() -> None:
    """However old it is."""
    bench = LogBench(replace(SMALL, retention_ms=0, retention_bytes=0))
    for _ in range(20):
        bench.append(timestamp=1)
    assert decide_log_start(bench.log, WALL_MS) == 0
    bench.log.update_high_watermark(bench.log.segments[2].base_offset + 1)
    assert decide_log_start(bench.log, WALL_MS) == bench.log.segments[2].base_offset


def test_what_is_only_compacted_is_not_dropped() -> None:
    """By neither rule."""
    bench = filled(20, replace(SMALL, retention_ms=1, retention_bytes=0, cleanup_policy="compact"))
    assert not maybe_retain(bench.log, WALL_MS + 1_000_000)
    bench.configure(cleanup_policy="compact,delete")
    assert maybe_retain(bench.log, WALL_MS + 1_000_000)


def test_records_without_a_timestamp_are_as_old_as_their_segment() -> None:
    """A start does not know how old that is, so it is counted from the first look."""
    bench = LogBench(replace(SMALL, retention_ms=5000))
    bench.log.append_as_leader(batch(timestamp=-1), 0, WALL_MS)
    log = bench.reopen_cleanly()
    log.update_high_watermark(1)
    assert decide_log_start(log, WALL_MS + 10_000) == 0
    assert decide_log_start(log, WALL_MS + 15_000) == 0
    assert decide_log_start(log, WALL_MS + 15_001) == 1


@pytest.mark.parametrize("seed", range(30))
def test_a_power_cut_while_segments_leave_damages_nothing(seed: int) -> None:
    """The log start is on the device before the first file has another name. Whatever subset of the
    names comes back, the rest of the log is whole."""
    prng = Prng(seed)
    bench = filled(30)
    bench.log.request_flush()
    bench.settle()
    bench.directory.checkpoint_recovery_points()
    bench.settle()
    log = bench.log
    start = log.segments[4].base_offset
    log.maybe_raise_log_start_offset(start)
    bench.directory.checkpoint_log_start_offsets()
    bench.settle()
    log.set_segments_aside(start, prng.between(1, 9))
    log = bench.reopen_after_power_cut(prng)
    assert (log.log_start_offset, log.log_end_offset) == (start, 30)
    found = [header.base_offset for _, header in iter_headers(read_all(log))]
    assert found == list(range(start, 30))


def test_rolls_come_early_by_a_part_of_the_jitter() -> None:
    """By another one for each segment."""
    config = LogConfig(segment_ms=1000, segment_jitter_ms=900)
    lengths = set()
    for first in range(3):
        bench = LogBench(config)
        bench.log.truncate_fully_and_start_at(first)
        for number in range(1001):
            bench.append(timestamp=WALL_MS + number)
            if len(bench.log.segments) > 1:
                break
        lengths.add(bench.log.segments.active.base_offset - first)
    assert len(lengths) == 3
    assert all(100 < length <= 1001 for length in lengths)

"""Deletion at the head: the log start, and the segments below it."""

import pytest

from tests.unit.log.harness import LogBench
from tidelog.errors import ProtocolError


def test_the_log_start_never_passes_the_watermark() -> None:
    """Goal: uncommitted records cannot be deleted; epochs begin at the new start."""
    bench = LogBench()
    for epoch in range(4):
        bench.append(epoch=epoch)
    bench.log.update_high_watermark(3)
    with pytest.raises(ProtocolError):
        bench.log.maybe_raise_log_start_offset(4)
    assert bench.log.maybe_raise_log_start_offset(2)
    assert not bench.log.maybe_raise_log_start_offset(1)
    assert bench.log.epochs.entries == [(2, 2), (3, 3)]
    bench.log.check()


def test_segments_below_the_log_start_go() -> None:
    """Goal: whole ones only, the active one never, producer snapshots with them; no more than asked
    for, the oldest first."""
    bench = LogBench()
    for _ in range(4):
        bench.append(count=2)
        bench.roll()
    log = bench.log
    log.update_high_watermark(8)
    log.delete_segments_below(log.log_start_offset, 9)
    assert len(log.segments) == 5
    log.maybe_raise_log_start_offset(5)
    assert log.segments.count_below(5) == 2
    log.delete_segments_below(log.log_start_offset, 1)
    assert [segment.base_offset for segment in log.segments] == [2, 4, 6, 8]
    log.delete_segments_below(log.log_start_offset, 1)
    assert [segment.base_offset for segment in log.segments] == [4, 6, 8]
    log.maybe_raise_log_start_offset(8)
    log.delete_segments_below(log.log_start_offset, 9)
    assert [segment.base_offset for segment in log.segments] == [8]
    log.check()

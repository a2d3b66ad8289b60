"""The log as a whole: append, read, truncate, and what may never happen to its offsets."""

import pytest

from tests.unit.log.harness import PARTITION, WALL_MS, LogBench, batch, read_all
from tidelog.config import LogConfig
from tidelog.env.effects import Flush
from tidelog.env.prng import Prng
from tidelog.errors import CorruptBatch, ErrorCode, ProtocolError
from tidelog.log.values import AppendOrigin, LogFlush
from tidelog.records.batch import stamp
from tidelog.records.control import EndTxnMarker, build_end_txn_marker


def test_reads_return_whole_batches_below_the_upper_offset() -> None:
    """Goal: bounds by bytes and by offset hold in the tail cache and on disk alike."""
    bench = LogBench()
    for _ in range(10):
        bench.append(count=2)
    size_bytes = len(batch(2))
    for cached in (True, False):
        if not cached:
            bench.log.tail.clear()
        read = bench.log.read(7, size_bytes * 2, 20, at_least_one=True)
        assert (read.first_offset, read.next_offset, read.size_bytes) == (6, 10, size_bytes * 2)
        assert bench.log.read(6, 1 << 20, 11, at_least_one=True).next_offset == 10
        assert bench.log.read(6, 5, 20, at_least_one=False).size_bytes == 0
        assert bench.log.read(6, 5, 20, at_least_one=True).size_bytes == size_bytes
        assert bench.log.read(20, 1 << 20, 20, at_least_one=True).chunks == []
        assert bench.log.read(7, 1 << 20, 7, at_least_one=True).chunks == []


def test_reads_outside_the_log_are_refused() -> None:
    """Goal: OFFSET_OUT_OF_RANGE below the log start and above the log end, not at it."""
    bench = LogBench()
    for _ in range(4):
        bench.append()
    bench.log.update_high_watermark(4)
    bench.log.maybe_raise_log_start_offset(2)
    for offset in (1, 5):
        with pytest.raises(ProtocolError) as caught:
            bench.log.read(offset, 100, 4, at_least_one=True)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert bench.log.read(2, 100, 4, at_least_one=True).next_offset == 3


def test_disk_and_cache_give_the_same_bytes_across_segments() -> None:
    """Goal: a property; random batches over many segments read back equal from both sources."""
    bench = LogBench(LogConfig(segment_bytes=2_000, index_interval_bytes=300))
    prng = Prng(42)
    written = b""
    for _ in range(150):
        count = prng.between(1, 9)
        first = bench.log.log_end_offset
        bench.append(count=count, epoch=first // 100)
        written += stamp(batch(count), first, first // 100)
    assert len(bench.log.segments) > 5
    assert read_all(bench.log) == written
    bench.log.tail.clear()
    assert read_all(bench.log) == written
    bench.log.check()


def test_the_watermark_is_clamped() -> None:
    """Goal: it stays within [log start, log end] and returns whether it moved."""
    bench = LogBench()
    bench.append(count=3)
    assert bench.log.update_high_watermark(99)
    assert bench.log.high_watermark == 3
    assert not bench.log.update_high_watermark(3)
    assert bench.log.update_high_watermark(1)


def test_the_recovery_point_follows_completed_flushes() -> None:
    """Goal: only the last answer of a group moves it, to what was asked for."""
    bench = LogBench()
    bench.append(count=2)
    assert bench.log.recovery_point == 0
    assert bench.log.request_flush() == 2
    bench.append()
    flushes = [effect for effect in bench.effects.take() if isinstance(effect, Flush)]
    assert len(flushes) == 2  # partition.metadata of the new log comes first
    for flush in flushes:
        assert bench.log.recovery_point == 0
        assert isinstance(flush.subject, LogFlush)
        bench.log.on_flushed(flush.subject)
    assert bench.log.recovery_point == 2
    bench.log.check()


def test_a_flush_requested_before_a_cut_proves_nothing() -> None:
    """Goal: records rewritten after a truncation are not durable by an older flush."""
    bench = LogBench()
    bench.settle()
    bench.append(count=4)
    bench.log.request_flush()
    bench.log.truncate_to(0)
    bench.append(count=4, epoch=1)
    bench.settle()
    assert bench.log.recovery_point == 0
    bench.log.request_flush()
    bench.settle()
    assert bench.log.recovery_point == 4


def test_transactions_hold_the_stable_offset_until_the_marker_is_replicated() -> None:
    """Goal: trap 15; the marker's append does not move it, the watermark passing it does."""
    bench = LogBench()
    bench.append()
    data = batch(2, producer_id=7, producer_epoch=0, sequence=0, transactional=True)
    bench.log.append_as_leader(data, 0, WALL_MS)
    bench.append()
    bench.log.update_high_watermark(4)
    assert bench.log.last_stable_offset == 1
    marker = build_end_txn_marker(EndTxnMarker(False, 0), 7, 0, WALL_MS)
    bench.log.append_as_leader(marker, 0, WALL_MS, origin=AppendOrigin.COORDINATOR)
    assert bench.log.last_stable_offset == 1
    bench.log.update_high_watermark(5)
    assert bench.log.last_stable_offset == 5
    assert [(txn.producer_id, txn.first_offset) for txn in bench.log.aborted_in(0, 5)] == [(7, 1)]
    assert bench.log.aborted_in(0, 1) == [] and bench.log.aborted_in(5, 9) == []
    bench.log.check()


def test_a_damaged_medium_is_noticed_and_not_served() -> None:
    """Goal: P4; a flipped bit on disk raises on read, for the batch that it is in."""
    bench = LogBench()
    for _ in range(3):
        bench.append()
    size_bytes = len(batch())
    bench.log.tail.clear()
    bench.disk.flip_bit(f"{PARTITION}/00000000000000000000.log", (size_bytes + 70) * 8)
    assert bench.log.read(0, size_bytes, 3, at_least_one=True).next_offset == 1
    with pytest.raises(CorruptBatch):
        bench.log.read(1, 1 << 20, 3, at_least_one=True)

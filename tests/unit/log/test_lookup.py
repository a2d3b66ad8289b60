"""Lookups by time."""

import pytest

from tests.fixtures import KAFKA_WALL_MS, kafka_disk, kafka_dump
from tests.unit.log.harness import WALL_MS, LogBench
from tidelog.config import LogConfig
from tidelog.env.effects import EffectQueue
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace, TraceList
from tidelog.log.directory import LogDirectory
from tidelog.log.values import TimestampedOffset
from tidelog.model import TopicPartition
from tidelog.records.batch import decode_batch, iter_headers


def test_the_first_record_at_or_after_a_time() -> None:
    """Goal: inside a batch, between batches, across segments; none when all are older."""
    bench = LogBench(LogConfig(segment_bytes=400, index_interval_bytes=100))
    for index in range(10):
        bench.append(count=3, epoch=index, timestamp=WALL_MS + 10 * index)
    find = bench.log.offset_for_timestamp
    assert find(0) == TimestampedOffset(WALL_MS, 0, 0)
    assert find(WALL_MS + 42) == TimestampedOffset(WALL_MS + 42, 14, 4)
    assert find(WALL_MS + 43) == TimestampedOffset(WALL_MS + 50, 15, 5)
    assert find(WALL_MS + 93) is None


def test_deleted_records_are_not_found() -> None:
    """Goal: nothing below the log start is an answer, even inside a batch that spans it."""
    bench = LogBench()
    bench.append(count=5)
    bench.log.update_high_watermark(5)
    bench.log.maybe_raise_log_start_offset(3)
    found = bench.log.offset_for_timestamp(0)
    assert found is not None and found.offset == 3


def test_the_largest_timestamp() -> None:
    """Goal: the first record that has it, wherever it lies; none in an empty log."""
    bench = LogBench(LogConfig(segment_bytes=400))
    assert bench.log.max_timestamp() is None
    for timestamp in (5, 90, 30, 90, 10):
        bench.append(count=2, timestamp=timestamp)
    assert bench.log.max_timestamp() == TimestampedOffset(91, 3, 0)


def test_lookups_equal_a_linear_search() -> None:
    """Goal: a property; unordered timestamps over many segments, against a plain loop."""
    bench = LogBench(LogConfig(segment_bytes=900, index_interval_bytes=150))
    prng = Prng(77)
    for _ in range(120):
        bench.append(count=prng.between(1, 4), timestamp=prng.below(1_000))
    records = []
    for segment in bench.log.segments:
        for found in segment.batches.scan():
            records += decode_batch(found.data)
    for timestamp in range(0, 1_100, 7):
        expected = next((r.offset for r in records if r.timestamp >= timestamp), None)
        answer = bench.log.offset_for_timestamp(timestamp)
        assert (answer.offset if answer else None) == expected, timestamp


@pytest.mark.parametrize("name", ["plain", "gzip", "rolled"])
def test_kafkas_records_are_found_by_their_time(name: str) -> None:
    """Goal: golden; for times that Kafka dumps, the first record at or after them."""
    directory = LogDirectory.open(
        kafka_disk("node1"),
        effects=EffectQueue(),
        trace=Trace(TraceList()),
        default_config=LogConfig(),
        wall_ms=KAFKA_WALL_MS,
    )
    log = directory.logs[TopicPartition(name, 0)]
    records = [
        record
        for segment in log.segments
        for dumped in kafka_dump(f"{name}-0/{segment.base_offset:020d}.log")
        for record in dumped.records
    ]
    assert len(records) == log.log_end_offset
    for record in records[:: max(1, len(records) // 25)]:
        expected = next(r.offset for r in records if r.timestamp >= record.timestamp)
        found = log.offset_for_timestamp(record.timestamp)
        assert found is not None and found.offset == expected
    assert len(list(iter_headers(log.segments[0].file.read(0, 1 << 30)))) > 0

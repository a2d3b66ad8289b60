"""One segment: finding, reading and scanning batches, index entries, truncation."""

import pytest

from tests.fixtures import kafka_disk, kafka_dump
from tests.unit.log.harness import WALL_MS, append_to, batch, make_segment
from tidelog.config import LogConfig
from tidelog.env.memory_disk import MemoryDisk
from tidelog.errors import CorruptBatch
from tidelog.log.batch_file import MAX_RELATIVE_OFFSET
from tidelog.log.file_names import offset_name
from tidelog.log.segment import BatchSpan, Segment


def test_any_offset_is_located() -> None:
    """Goal: with and without index entries each offset leads to its own batch."""
    for interval in (0, 200, 1 << 20):
        segment = make_segment(40, interval=interval)
        size_bytes = len(batch(2))
        for offset in range(100, 180):
            assert segment.locate(offset) == (offset - 100) // 2 * size_bytes
        assert segment.locate(180) is None


def test_the_next_offset_is_found_from_the_index() -> None:
    """Goal: the end is found by headers after the last entry; a torn end is noticed."""
    segment = make_segment(10)
    assert segment.next_offset() == 120
    segment.file.truncate(segment.size_bytes - 1)
    with pytest.raises(CorruptBatch):
        segment.next_offset()


def test_truncation_reloads_the_largest_timestamp() -> None:
    """Goal: after a cut the largest timestamp is that of the batches left, entries or not."""
    segment = make_segment(10, interval=400)
    segment.truncate_to(113)
    assert segment.next_offset() == 112
    assert (segment.max_timestamp, segment.max_timestamp_offset) == (WALL_MS + 6, 111)
    segment.truncate_to(100)
    assert (segment.size_bytes, segment.max_timestamp, segment.first_timestamp) == (0, -1, -1)


def test_rolling_conditions() -> None:
    """Goal: size, time, full index and the 31-bit range each ask for a new segment; an empty
    segment only does for the range."""
    far = BatchSpan(0, 100 + MAX_RELATIVE_OFFSET + 1, WALL_MS, 10)
    near = BatchSpan(0, 110, WALL_MS, 10)
    late = BatchSpan(0, 110, WALL_MS + 99, 10)
    config = LogConfig(segment_bytes=500, segment_ms=50)

    def rolls(segment: Segment, incoming: BatchSpan, size_bytes: int = 10) -> bool:
        return segment.should_roll(config, incoming=incoming, wall_ms=-1, size_bytes=size_bytes)

    assert not rolls(make_segment(0), near, 900) and rolls(make_segment(0), far)
    segment = make_segment(1)
    assert not rolls(segment, near) and rolls(segment, near, 900)
    assert rolls(segment, late) and rolls(segment, far)


def test_a_full_index_rolls() -> None:
    """Goal: segment.index.bytes bounds the entries."""
    disk = MemoryDisk()
    disk.make_dir("t-0")
    config = LogConfig(segment_index_bytes=36)
    segment = Segment(disk, "t-0", 0, config)
    rolled_at = None
    for index in range(9):
        span = BatchSpan(2 * index, 2 * index + 1, WALL_MS + index, 10)
        if segment.should_roll(config, incoming=span, wall_ms=-1, size_bytes=10):
            rolled_at = index
            break
        append_to(segment, 2 * index, WALL_MS + index, interval=0)
    assert rolled_at == 3
    assert segment.time_index.is_full


@pytest.mark.parametrize("name", ["plain-0", "compact-0", "rolled-1", "copy-1"])
def test_kafkas_segments_read_batch_for_batch(name: str) -> None:
    """Goal: golden; every record offset that Kafka dumps is located in the batch it names."""
    segment = Segment(kafka_disk("node1"), name, 0, LogConfig())
    assert segment.load_indexes() is None
    for dumped in kafka_dump(f"{name}/{offset_name(0)}.log"):
        position = int(dumped.fields["position"])
        for offset in (int(dumped.fields["baseOffset"]), int(dumped.fields["lastOffset"])):
            assert segment.locate(offset) == position

"""One segment: finding, reading and scanning batches, index entries, truncation."""

import pytest

from tests.fixtures import kafka_disk, kafka_dump
from tests.unit.log.harness import WALL_MS, batch
from tidelog.config import LogConfig
from tidelog.env.effects import EffectQueue
from tidelog.env.memory_disk import MemoryDisk
from tidelog.errors import CorruptBatch
from tidelog.log.epoch_cache import LeaderEpochCache
from tidelog.log.segment import (
    MAX_RELATIVE_OFFSET,
    BatchSpan,
    ReadWindow,
    Segment,
    offset_name,
)
from tidelog.records.batch import read_header, stamp


def _segment(count: int, *, base: int = 100, interval: int = 200) -> Segment:
    disk = MemoryDisk()
    disk.make_dir("t-0")
    segment = Segment(disk, "t-0", base, LogConfig())
    for index in range(count):
        _append(segment, base + 2 * index, WALL_MS + index, interval)
    return segment


def _append(segment: Segment, offset: int, timestamp: int, interval: int = 200) -> None:
    data = stamp(batch(2, timestamp), offset, 0)
    header = read_header(data)
    span = BatchSpan(offset, header.last_offset, header.max_timestamp, len(data))
    segment.append(data, [span], interval)


def _window(upper: int) -> ReadWindow:
    return ReadWindow(upper, upper, LeaderEpochCache("epochs", EffectQueue(), [(0, 0)]))


def test_names_have_twenty_digits() -> None:
    """Goal: golden form of file names."""
    assert offset_name(42) == "00000000000000000042"


def test_any_offset_is_located() -> None:
    """Goal: with and without index entries each offset leads to its own batch."""
    for interval in (0, 200, 1 << 20):
        segment = _segment(40, interval=interval)
        size_bytes = len(batch(2))
        for offset in range(100, 180):
            assert segment.locate(offset) == (offset - 100) // 2 * size_bytes
        assert segment.locate(180) is None


def test_batches_above_the_windows_are_read() -> None:
    """Goal: a batch larger than the scan window and the byte limit is found and read whole."""
    segment = _segment(1)
    big = stamp(batch(1, value=bytes(3 << 20)), 102, 0)
    segment.append(big, [BatchSpan(102, 102, WALL_MS, len(big))], 0)
    _append(segment, 103, WALL_MS)
    position = segment.locate(102)
    assert position is not None
    assert segment.read(position, 102, 100, _window(999), True).size_bytes == len(big)
    assert segment.read(position, 102, 100, _window(999), False).size_bytes == 0
    assert [found.header.base_offset for found in segment.scan()] == [100, 102, 103]
    assert segment.locate(103) is not None


def test_the_next_offset_is_found_from_the_index() -> None:
    """Goal: the end is found by headers after the last entry; a torn end is noticed."""
    segment = _segment(10)
    assert segment.next_offset() == 120
    segment.file.truncate(segment.size_bytes - 1)
    with pytest.raises(CorruptBatch):
        segment.next_offset()


def test_a_scan_stops_at_damage() -> None:
    """Goal: batches before the damage come, then CorruptBatch."""
    disk = MemoryDisk()
    disk.make_dir("t-0")
    segment = Segment(disk, "t-0", 0, LogConfig())
    for index in range(3):
        _append(segment, 2 * index, WALL_MS)
    disk.flip_bit(f"t-0/{offset_name(0)}.log", (len(batch(2)) + 80) * 8)
    scan = segment.scan()
    assert next(scan).header.base_offset == 0
    with pytest.raises(CorruptBatch):
        next(scan)


def test_a_scan_refuses_offsets_outside_the_segment() -> None:
    """Goal: offsets below the base, or too far above it, are damage."""
    for offset in (50, 100 + MAX_RELATIVE_OFFSET + 1):
        segment = _segment(0)
        data = stamp(batch(), offset, 0)
        segment.file.append([data])
        with pytest.raises(CorruptBatch):
            list(segment.scan())


def test_truncation_reloads_the_largest_timestamp() -> None:
    """Goal: after a cut the largest timestamp is that of the batches left, entries or not."""
    segment = _segment(10, interval=400)
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

    assert not rolls(_segment(0), near, 900) and rolls(_segment(0), far)
    segment = _segment(1)
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
        _append(segment, 2 * index, WALL_MS + index, interval=0)
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

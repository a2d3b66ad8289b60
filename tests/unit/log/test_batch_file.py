"""The log file of a segment: scans and reads stop at damage."""

import pytest

from tests.unit.log.harness import WALL_MS, append_to, batch, make_segment, read_window
from tidelog.config import LogConfig
from tidelog.env.memory_disk import MemoryDisk
from tidelog.errors import CorruptBatch
from tidelog.log.batch_file import MAX_RELATIVE_OFFSET
from tidelog.log.file_names import offset_name
from tidelog.log.segment import BatchSpan, Segment
from tidelog.records.batch import stamp


def test_batches_above_the_windows_are_read() -> None:
    """Goal: a batch larger than the scan window and the byte limit is found and read whole."""
    segment = make_segment(1)
    big = stamp(batch(1, value=bytes(3 << 20)), 102, 0)
    segment.append(big, [BatchSpan(102, 102, WALL_MS, len(big))], 0)
    append_to(segment, 103, WALL_MS)
    position = segment.locate(102)
    assert position is not None
    assert segment.batches.read(position, 102, 100, read_window(999), True).size_bytes == len(big)
    assert segment.batches.read(position, 102, 100, read_window(999), False).size_bytes == 0
    assert [found.header.base_offset for found in segment.batches.scan()] == [100, 102, 103]
    assert segment.locate(103) is not None


def test_a_scan_stops_at_damage() -> None:
    """Goal: batches before the damage come, then CorruptBatch."""
    disk = MemoryDisk()
    disk.make_dir("t-0")
    segment = Segment(disk, "t-0", 0, LogConfig())
    for index in range(3):
        append_to(segment, 2 * index, WALL_MS)
    disk.flip_bit(f"t-0/{offset_name(0)}.log", (len(batch(2)) + 80) * 8)
    scan = segment.batches.scan()
    assert next(scan).header.base_offset == 0
    with pytest.raises(CorruptBatch):
        next(scan)


def test_a_scan_refuses_offsets_outside_the_segment() -> None:
    """Goal: offsets below the base, or too far above it, are damage."""
    for offset in (50, 100 + MAX_RELATIVE_OFFSET + 1):
        segment = make_segment(0)
        data = stamp(batch(), offset, 0)
        segment.file.append([data])
        with pytest.raises(CorruptBatch):
            list(segment.batches.scan())

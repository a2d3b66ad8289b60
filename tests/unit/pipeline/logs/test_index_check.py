"""Index entries that lead where they should, and every way in which they may not."""

import struct

import pytest

from tests.fixtures import unpack_kafka_node
from tests.unit.pipeline.log_directories import batches, write_segment
from tidelog.pipeline.batches import read_batches
from tidelog.pipeline.logs.index_check import SegmentIndexes

_SIZE = len(batches(1)[0])


def _faults(segment):
    table = read_batches(segment.read_bytes(), stop_at_damage=True)
    return SegmentIndexes.read(segment).faults(table, 0, is_last=True)


def _put(segment, suffix, entry, data):
    path = segment.with_suffix(suffix)
    content = bytearray(path.read_bytes())
    content[entry * len(data) : (entry + 1) * len(data)] = data
    path.write_bytes(content)


def test_every_index_of_kafka_leads_where_it_should(tmp_path):
    log_dir = unpack_kafka_node("node1", tmp_path)
    segments = [path for path in sorted(log_dir.glob("*/*.log")) if path.stat().st_size]
    assert len(segments) > 20
    assert sum(len(SegmentIndexes.read(path).offsets) for path in segments) > 50
    for path in segments:
        assert set(_faults(path)) == {None}, path


def test_good_indexes_and_missing_ones_have_no_faults(tmp_path):
    segment = write_segment(tmp_path, batches(), indexed=True)
    assert len(SegmentIndexes.read(segment).offsets) == 9
    assert set(_faults(segment)) == {None}
    segment.with_suffix(".index").unlink()
    segment.with_suffix(".timeindex").unlink()
    assert set(_faults(segment)) == {None}


@pytest.mark.parametrize(
    ("offset", "position", "row"),
    [
        (59, 4 * _SIZE + 1, 4),  # In the middle of a batch.
        (39, 4 * _SIZE, 4),  # A batch that begins behind the offset: what is between is missed.
        (59, 40 * _SIZE, 9),  # Behind the end.
        (19, 2 * _SIZE, 2),  # Not above the entry before it.
    ],
)
def test_a_wrong_offset_entry_is_found(tmp_path, offset, position, row):
    segment = write_segment(tmp_path, batches(), indexed=True)
    _put(segment, ".index", 4, struct.pack(">ii", offset, position))
    faults = _faults(segment)
    assert faults[row].startswith(f"offset index leads to offset {offset} at position {position}")


@pytest.mark.parametrize(("timestamp", "offset", "row"), [(1_058, 59, 5), (1_059, 60, 6)])
def test_a_wrong_time_entry_is_found(tmp_path, timestamp, offset, row):
    segment = write_segment(tmp_path, batches(), indexed=True)
    _put(segment, ".timeindex", 4, struct.pack(">qi", timestamp, offset))
    faults = _faults(segment)
    assert faults[row].startswith(f"time index claims timestamp {timestamp} at offset {offset}")
    assert [fault for i, fault in enumerate(faults) if i != row] == [None] * 9


def test_windows_together_judge_each_entry_once(tmp_path):
    segment = write_segment(tmp_path, batches(), indexed=True)
    _put(segment, ".index", 2, struct.pack(">ii", 39, 3 * _SIZE + 5))
    data = segment.read_bytes()
    indexes = SegmentIndexes.read(segment)
    cut = 5 * _SIZE
    first = indexes.faults(read_batches(data[:cut]), 0, is_last=False)
    second = indexes.faults(read_batches(data[cut:]), cut, is_last=True)
    assert [i for i, fault in enumerate(first + second) if fault] == [3]

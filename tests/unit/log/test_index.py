"""Sparse indexes: lookups, truncation, and Kafka's files byte for byte."""

import struct

import pytest

from tests.fixtures import kafka_files
from tidelog.log.index import OffsetIndex, TimeIndex


def _offset_index(*entries: tuple[int, int], base: int = 100) -> OffsetIndex:
    index = OffsetIndex(base, 80)
    for last_offset, position in entries:
        index.append(last_offset, position)
    return index


def test_a_lookup_takes_the_greatest_entry_at_or_below() -> None:
    """Goal: trap 25; entries carry last offsets, so an equal one is the batch itself."""
    index = _offset_index((109, 50), (119, 90))
    assert [index.entry_for(offset)[1] for offset in (100, 108, 109, 118, 119, 500)] == [
        0, 0, 50, 50, 90, 90,
    ]  # fmt: skip


def test_truncation_drops_entries_from_the_offset_on() -> None:
    """Goal: an entry that ends at the offset goes, one below it stays."""
    index = _offset_index((109, 50), (119, 90))
    index.truncate_to(119)
    assert len(index) == 1 and index.last_entry[1] == 50
    index.truncate_to(0)
    assert len(index) == 0 and index.last_entry[1] == 0


def test_entries_must_ascend() -> None:
    """Goal: a repeated offset is a bug."""
    index = _offset_index((109, 50))
    with pytest.raises(AssertionError):
        index.append(109, 60)


def test_indexes_fill_up() -> None:
    """Goal: the time index keeps a slot free for sealing, the offset index does not."""
    offsets, times = OffsetIndex(0, 85), TimeIndex(0, 47)
    for count in range(10):
        assert not offsets.is_full
        offsets.append(count, count)
    assert offsets.is_full
    for count in range(2):
        assert not times.is_full
        times.maybe_append(count, count)
    assert times.is_full
    assert times.maybe_append(9, 9)


@pytest.mark.parametrize("partition", ["rolled-0", "rolled-1", "txn-1", "__cluster_metadata-0"])
def test_kafkas_files_read_and_write_back(partition: str) -> None:
    """Goal: golden; load and encode are inverse on Kafka's own index files."""
    files = kafka_files("node2")
    stem = f"{partition}/{0:020d}"
    index, times = OffsetIndex(0, 10 << 20), TimeIndex(0, 10 << 20)
    assert index.load(files[stem + ".index"], len(files[stem + ".log"]))
    assert times.load(files[stem + ".timeindex"])
    assert len(index) > 0 and len(times) > 0
    assert index.encode() == files[stem + ".index"]
    assert times.encode() == files[stem + ".timeindex"]


@pytest.mark.parametrize(
    "entries", [((5, 10), (5, 20)), ((5, 10), (6, 10)), ((5, 10), (6, 1_000)), ((-1, 0), (3, 9))]
)
def test_senseless_offset_entries_are_refused(entries: tuple[tuple[int, int], ...]) -> None:
    """Goal: order and range are checked; a refused index is empty."""
    index = OffsetIndex(0, 800)
    data = b"".join(struct.pack(">ii", *entry) for entry in entries)
    assert not index.load(data, 1_000)
    assert len(index) == 0
    assert not index.load(b"\x00" * 9, 1_000)


def test_times_only_grow() -> None:
    """Goal: an entry that brings no larger timestamp is left out; lookups go to the last entry
    not above the time."""
    times = TimeIndex(100, 1_200)
    assert times.last_entry == (-1, 100)
    assert times.maybe_append(50, 105)
    assert not times.maybe_append(50, 110)
    assert times.maybe_append(70, 110)
    assert [times.entry_for(at)[1] for at in (49, 50, 69, 70)] == [100, 105, 105, 110]
    times.truncate_to(110)
    assert times.last_entry == (50, 105)


def test_senseless_time_entries_are_refused() -> None:
    """Goal: timestamps must ascend and offsets not fall."""
    for entries in (((5, 1), (5, 2)), ((5, 3), (6, 2)), ((5, -1),)):
        times = TimeIndex(0, 1_200)
        assert not times.load(b"".join(struct.pack(">qi", *entry) for entry in entries))
        assert len(times) == 0

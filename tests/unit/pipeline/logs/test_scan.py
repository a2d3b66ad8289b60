"""Segments as Arrow rows."""

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.pipeline.batch_samples import plain_rows, random_batches
from tests.unit.pipeline.log_directories import batches, write_segment
from tidelog.env.prng import Prng
from tidelog.errors import CorruptBatch, StorageError
from tidelog.pipeline.logs import segments
from tidelog.pipeline.logs.layout import SegmentPlace
from tidelog.pipeline.logs.scan import (
    BATCH_SCHEMA,
    SEGMENT_RECORD_SCHEMA,
    is_sampled,
    scan_batches,
    scan_records,
)
from tidelog.records.batch import iter_headers


def _place(path):
    return SegmentPlace(7, "t", 2, str(path), path.stat().st_size)


def _rows(found):
    return [row for batch in found for row in batch.to_pylist()]


@pytest.mark.parametrize("window_bytes", [200, 1 << 20])
def test_every_header_field_is_a_column(tmp_path, monkeypatch, window_bytes):
    monkeypatch.setattr(segments, "WINDOW_BYTES", window_bytes)
    data = random_batches(Prng(5), 30)
    segment = tmp_path / f"{0:020d}.log"
    segment.write_bytes(data)
    rows = _rows(scan_batches(_place(segment), BATCH_SCHEMA.names))
    headers = list(iter_headers(data))
    assert [row["position"] for row in rows] == [position for position, _ in headers]
    for row, (_, header) in zip(rows, headers, strict=True):
        assert (row["broker"], row["topic"], row["partition"]) == (7, "t", 2)
        assert row["segment"] == str(segment)
        assert (row["base_offset"], row["last_offset"]) == (header.base_offset, header.last_offset)
        assert row["crc"] == row["computed_crc"] == header.crc
        assert row["size"] == header.size_bytes
        assert row["leader_epoch"] == header.leader_epoch
        assert row["max_timestamp_ms"] == header.max_timestamp
        assert row["trailing_bytes"] is None
        assert row["index_fault"] is None


def test_damage_and_a_torn_tail_show(tmp_path):
    segment = write_segment(tmp_path, [*batches(3), b"half an append"])
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    rows = _rows(scan_batches(_place(segment), ["crc", "computed_crc", "trailing_bytes"]))
    assert [row["crc"] == row["computed_crc"] for row in rows] == [True, False, True]
    assert [row["trailing_bytes"] for row in rows] == [None, None, 14]


def test_preallocated_zeros_are_no_torn_tail(tmp_path):
    segment = write_segment(tmp_path, [*batches(3), bytes(3_000_000)])
    rows = _rows(scan_batches(_place(segment), ["trailing_bytes"]))
    assert [row["trailing_bytes"] for row in rows] == [None] * 3


def test_a_file_that_is_gone_has_no_rows(tmp_path):
    segment = write_segment(tmp_path, batches(1))
    place = replace(_place(segment), path=str(tmp_path / f"{1:020d}.log"))
    assert _rows(scan_batches(place, BATCH_SCHEMA.names)) == []
    assert _rows(scan_records(place, ["offset"])) == []


def test_a_sample_checks_some_batches_and_the_same_ones_everywhere(tmp_path):
    segment = write_segment(tmp_path, batches(200))
    rows = _rows(scan_batches(_place(segment), ["base_offset", "computed_crc"], sample=5))
    checked = {row["base_offset"] for row in rows if row["computed_crc"] is not None}
    assert 15 < len(checked) < 80
    offsets = np.arange(0, 2_000, 10)
    assert checked == set(offsets[is_sampled(offsets, 5)].tolist())
    assert is_sampled(offsets, 1).all()


def test_records_are_those_of_the_plain_decoder(tmp_path):
    data = random_batches(Prng(6), 30)
    segment = tmp_path / f"{0:020d}.log"
    segment.write_bytes(data)
    rows = _rows(scan_records(_place(segment), SEGMENT_RECORD_SCHEMA.names))
    expected = plain_rows(data)
    assert [row["offset"] for row in rows] == [row["offset"] for row in expected]
    assert [row["value"] for row in rows] == [row["value"] for row in expected]
    assert {(row["broker"], row["topic"], row["partition"]) for row in rows} == {(7, "t", 2)}


def test_damaged_records_name_the_file(tmp_path):
    segment = write_segment(tmp_path, batches(3))
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    with pytest.raises(
        CorruptBatch, match=rf"{segment.name}` \(broker 7, `t-2`\): batch with base"
    ):
        list(scan_records(_place(segment), ["offset"]))


def test_a_torn_end_is_a_fault_of_records_but_in_the_last_file(tmp_path):
    """A reader must not miss the records behind a damaged length."""
    segment = write_segment(tmp_path, [*batches(2), b"no batch"])
    assert len(_rows(scan_records(_place(segment), ["offset"]))) == 20
    (tmp_path / f"{30:020d}.log").write_bytes(b"")
    with pytest.raises(CorruptBatch, match="8 bytes from position"):
        list(scan_records(_place(segment), ["offset"]))


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    segment = tmp_path / f"{0:020d}.log"
    segment.mkdir()
    for rows in (scan_records(_place(segment), ["offset"]), scan_batches(_place(segment), ["crc"])):
        with pytest.raises(StorageError, match=rf"{segment.name}`: .* \(broker 7, `t-2`\)"):
            list(rows)

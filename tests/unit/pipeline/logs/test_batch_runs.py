"""Runs of batches: which batches they hold, where they end, what can be compared of them."""

from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest

from tests.unit.pipeline.log_directories import batch, batches, write_segment
from tidelog.env.prng import Prng
from tidelog.pipeline.logs import segments
from tidelog.pipeline.logs.batch_runs import (
    BATCH_RUN_SCHEMA,
    SINGLE_BATCH_SCHEMA,
    bounds_of,
    read_single_batches,
    scan_batch_runs,
)
from tidelog.pipeline.logs.layout import Replica, SegmentPlace
from tidelog.records.batch import iter_headers

_REPLICA = Replica(7, "t", 0, 0, 1_000_000, 0, ())
_BATCHES = batches()


def _bounds(replica=_REPLICA, *others):
    return bounds_of([replica, *others])["t", 0, replica.broker]


def _scanned(segment, bounds=None, sample=1):
    place = SegmentPlace(7, "t", 0, str(segment), segment.stat().st_size)
    return list(scan_batch_runs(place, bounds or _bounds(), sample))


def _rows(found):
    return [row for one in found for row in one.to_pylist()]


def _offsets(rows):
    return [(row["base_offset"], row["last_offset"]) for row in rows]


def _single_batches(found):
    return _rows(one for part in found for one in read_single_batches(part))


def _damaged(data):
    return data[:-1] + bytes([data[-1] ^ 1])


def test_a_sound_file_is_one_run(tmp_path):
    segment = write_segment(tmp_path, _BATCHES, indexed=True)
    (found,) = _scanned(segment)
    assert found.schema == BATCH_RUN_SCHEMA
    (row,) = found.to_pylist()
    assert _offsets([row]) == [(0, 99)]
    assert (row["batches"], row["size"], row["position"]) == (10, segment.stat().st_size, 0)
    assert (row["first_last_offset"], row["first_epoch"], row["last_epoch"]) == (9, 3, 3)
    assert row["is_judged"] and row["crc"] is None and row["computed_crc"] is None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([*_BATCHES[:3], *_BATCHES[4:]], [(0, 29), (40, 99)]),
        ([*_BATCHES[:3], *_BATCHES[2:]], [(0, 29), (20, 99)]),
        ([*_BATCHES[:3], batch(30, epoch=2), *_BATCHES[4:]], [(0, 29), (30, 99)]),
        ([*_BATCHES[:3], batch(30, epoch=4), batch(40, epoch=4)], [(0, 49)]),
        ([*_BATCHES[:3], _damaged(_BATCHES[3]), *_BATCHES[4:]], [(0, 29), (30, 39), (40, 99)]),
        ([*_BATCHES, b"torn"], [(0, 89), (90, 99)]),
    ],
    ids=["gap", "overlap", "lower-epoch", "higher-epoch", "damaged", "torn"],
)
def test_a_run_ends_where_something_may_be_wrong(tmp_path, content, expected):
    rows = _rows(_scanned(write_segment(tmp_path, content)))
    assert _offsets(rows) == expected
    assert [row["trailing_bytes"] for row in rows][:-1] == [None] * (len(rows) - 1)


def test_a_damaged_batch_has_both_checksums_in_its_row(tmp_path):
    rows = _rows(_scanned(write_segment(tmp_path, [*_BATCHES[:2], _damaged(_BATCHES[2])])))
    assert [row["crc"] is None for row in rows] == [True, False]
    assert rows[1]["crc"] != rows[1]["computed_crc"]
    sampled = _rows(_scanned(write_segment(tmp_path, [_damaged(one) for one in _BATCHES]), None, 7))
    assert 0 < sum(row["crc"] is not None for row in sampled) < 10


def test_a_batch_to_which_an_index_points_wrongly_is_a_run_of_its_own(tmp_path):
    segment = write_segment(tmp_path, _BATCHES, indexed=True)
    index = segment.with_suffix(".timeindex")
    index.write_bytes(b"\1" * 8 + index.read_bytes()[8:])
    rows = _rows(_scanned(segment))
    assert [row["base_offset"] for row in rows if row["index_fault"]] == [10, 20]
    assert _offsets(rows) == [(0, 9), (10, 19), (20, 29), (30, 99)]


def test_judged_is_what_lies_whole_between_the_bounds_and_zones_end_at_all_replicas(tmp_path):
    segment = write_segment(tmp_path, _BATCHES)
    one = replace(_REPLICA, log_start=15, high_watermark=75)
    rows = _rows(_scanned(segment, _bounds(one)))
    assert [(*_offsets([row])[0], row["is_judged"]) for row in rows] == [
        (0, 9, False),
        (10, 69, True),
        (70, 99, False),
    ]
    other = replace(_REPLICA, broker=8, high_watermark=40, cleaned_to=20)
    zones = _rows(_scanned(segment, _bounds(one, other)))
    assert _offsets(zones) == [(0, 9), (10, 19), (20, 39), (40, 69), (70, 99)]
    assert len({row["zone"] for row in zones}) == 5


def test_the_cleaner_may_leave_gaps_up_to_where_it_came(tmp_path):
    segment = write_segment(tmp_path, [_BATCHES[0], _BATCHES[3], _BATCHES[6], _BATCHES[8]])
    rows = _rows(_scanned(segment, _bounds(replace(_REPLICA, cleaned_to=50))))
    assert _offsets(rows) == [(0, 39), (60, 69), (80, 89)]
    assert {row["cleaned_to"] for row in rows} == {50}


def test_also_what_was_cleaned_may_not_overlap(tmp_path):
    segment = write_segment(tmp_path, [*_BATCHES[:3], *_BATCHES[2:]])
    rows = _rows(_scanned(segment, _bounds(replace(_REPLICA, cleaned_to=90))))
    assert _offsets(rows) == [(0, 29), (20, 89), (90, 99)]


def test_buckets_end_runs(tmp_path):
    content = [batch(65_500 + 10 * number) for number in range(8)]
    rows = _rows(_scanned(write_segment(tmp_path, content, base_offset=65_500)))
    assert [(row["bucket"], *_offsets([row])[0]) for row in rows] == [
        (0, 65_500, 65_539),
        (1, 65_540, 65_579),
    ]


@pytest.mark.parametrize("window_bytes", [500, 1 << 20])
def test_runs_hold_every_batch_once_and_no_fault_inside(tmp_path, monkeypatch, window_bytes):
    monkeypatch.setattr(segments, "WINDOW_BYTES", window_bytes)
    prng = Prng(9)
    content = []
    for number in range(200):
        data = batch(10 * max(number - prng.below(2), 0), epoch=prng.choice([3, 3, 3, 4]))
        content.append(data if prng.below(10) else _damaged(data))
    segment = write_segment(tmp_path, content)
    found = _scanned(segment)
    rows = _rows(found)
    assert sum(row["batches"] for row in rows) == 200
    edges = [row["position"] for row in rows] + [segment.stat().st_size]
    assert [row["size"] for row in rows] == [end - start for start, end in pairwise(edges)]
    headers = list(iter_headers(segment.read_bytes()))
    for row in rows:
        inside = [
            header
            for position, header in headers
            if row["position"] <= position < row["position"] + row["size"]
        ]
        assert len(inside) == row["batches"]
        for before, header in pairwise(inside):
            assert header.base_offset == before.last_offset + 1
            assert header.leader_epoch >= before.leader_epoch
        assert row["computed_crc"] is None or row["batches"] == 1
    singles = _single_batches(found)
    assert [(row["position"], row["base_offset"], row["last_offset"]) for row in singles] == [
        (position, header.base_offset, header.last_offset) for position, header in headers
    ]


def test_digests_add_up_however_files_roll(tmp_path):
    """The sum over a file is that of its parts, and of its batches one by one."""
    whole = _scanned(write_segment(tmp_path / "whole", _BATCHES))
    parts = [
        *_scanned(write_segment(tmp_path / "parts", _BATCHES[:3])),
        *_scanned(write_segment(tmp_path / "parts", _BATCHES[3:], base_offset=30)),
    ]
    sums = {
        sum(row["digest"] for row in rows) % 2**64
        for rows in (_rows(whole), _rows(parts), _single_batches(whole), _single_batches(parts))
    }
    assert len(sums) == 1


@pytest.mark.parametrize("position", [7, 11, 15, 20, 26, 60])
def test_every_header_field_that_replicas_share_is_in_the_digest(tmp_path, position):
    """Also where the sample leaves the checksum out."""
    (before,) = _single_batches(_scanned(write_segment(tmp_path, [*_BATCHES[:1], bytes(99)])))
    data = bytearray(_BATCHES[0])
    data[position] ^= 1
    table = _single_batches(_scanned(write_segment(tmp_path, [bytes(data), bytes(99)])))
    assert [row["digest"] for row in table] != [before["digest"]]


def test_what_is_compared_is_judged_uncleaned_and_undamaged(tmp_path):
    replica = replace(_REPLICA, log_start=10, cleaned_to=30, high_watermark=80)
    content = [*_BATCHES[:5], _damaged(_BATCHES[5]), *_BATCHES[6:]]
    found = _scanned(write_segment(tmp_path, content), _bounds(replica))
    (first, *_) = (one for part in found for one in read_single_batches(part))
    assert first.schema == SINGLE_BATCH_SCHEMA
    compared = [row["base_offset"] for row in _single_batches(found) if row["is_compared"]]
    assert compared == [30, 40, 60, 70]


def test_a_deleted_file_has_no_rows(tmp_path):
    segment = write_segment(tmp_path, _BATCHES)
    found = _scanned(segment)
    place = SegmentPlace(7, "t", 0, str(segment), 1)
    segment.unlink()
    assert list(scan_batch_runs(place, _bounds())) == []
    assert _single_batches(found) == []


def test_batches_cut_off_meanwhile_are_not_read_again(tmp_path):
    segment = write_segment(tmp_path, _BATCHES)
    found = _scanned(segment)
    segment.write_bytes(b"".join(_BATCHES[:2])[:-1])
    assert _offsets(_single_batches(found)) == [(0, 9)]
    assert all(isinstance(one, pa.RecordBatch) for one in read_single_batches(found[0]))

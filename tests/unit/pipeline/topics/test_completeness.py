"""Batches that should follow each other: each kind of hole is named."""

import pytest

from tidelog.pipeline.batches import read_batches
from tidelog.pipeline.topics.completeness import first_gap
from tidelog.records.batch import build_batch
from tidelog.records.record import Record


def _batch(base: int, count: int = 10, *, last_delta: int | None = None) -> bytes:
    batch = bytearray(build_batch([Record(1, None, b"v")] * count, base_offset=base))
    if last_delta is not None:
        batch[23:27] = last_delta.to_bytes(4, "big")
    return bytes(batch)


@pytest.mark.parametrize(
    ("batches", "position", "end", "missing"),
    [
        ([_batch(0), _batch(10)], 0, 20, None),
        ([_batch(0), _batch(10)], 5, 20, None),
        ([_batch(10)], 0, 20, "offset 0 should follow, but the next batch begins at 10"),
        (
            [_batch(0), _batch(20)],
            0,
            30,
            "offset 10 should follow, but the next batch begins at 20",
        ),
        ([_batch(0), _batch(20)], 0, 10, None),
        ([_batch(0), _batch(5)], 0, 30, "offset 10 should follow, but the next batch begins at 5"),
        ([_batch(0), _batch(10, 4, last_delta=9)], 0, 20, "offsets 10 to 19 holds 4 records"),
        ([_batch(0), _batch(10, 4, last_delta=9)], 0, 10, None),
    ],
)
def test_a_hole_is_named_where_it_matters(batches, position, end, missing):
    found = first_gap(read_batches(b"".join(batches)), position, end)
    assert found is None if missing is None else found is not None and missing in found

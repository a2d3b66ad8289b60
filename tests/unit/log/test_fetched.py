"""What a follower takes of a fetch response."""

import pytest

from tests.unit.log.harness import batch
from tidelog.env.prng import Prng
from tidelog.errors import CorruptBatch
from tidelog.log.fetched import scan_fetched
from tidelog.records.batch import stamp


def test_whole_batches_of_known_epochs() -> None:
    """Goal: every cut length gives exactly the whole batches before it."""
    parts = [stamp(batch(2), 2 * index, index) for index in range(4)]
    data = b"".join(parts)
    size_bytes = len(parts[0])
    for length in range(len(data) + 1):
        found = scan_fetched(memoryview(data)[:length], 9)
        assert found.end == length // size_bytes * size_bytes
        assert len(found.headers) == len(found.spans) == length // size_bytes
    assert scan_fetched(data, 1).end == 2 * size_bytes


def test_damage_is_refused() -> None:
    """Goal: no batch with a flipped bit behind its first 17 bytes is taken; method: 300 flips in
    the second of three batches."""
    parts = [stamp(batch(2), 2 * index, 0) for index in range(3)]
    prng = Prng(4)
    for _ in range(300):
        damaged = bytearray(parts[1])
        bit = prng.between(17 * 8, len(damaged) * 8 - 1)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptBatch):
            scan_fetched(parts[0] + damaged + parts[2], 9)


def test_offsets_must_rise() -> None:
    """Goal: a repeated or overlapping batch is refused, a hole is not."""
    first = stamp(batch(3), 10, 0)
    for offset in (0, 10, 12):
        with pytest.raises(CorruptBatch):
            scan_fetched(first + stamp(batch(3), offset, 0), 9)
    assert len(scan_fetched(first + stamp(batch(3), 99, 0), 9).spans) == 2


@pytest.mark.parametrize("length", [b"\x00" * 4, b"\xff" * 4, b"\x00\x00\x00\x05"])
def test_senseless_lengths_are_refused(length: bytes) -> None:
    """Goal: no endless loop and no skipping over garbage."""
    data = bytearray(stamp(batch(), 0, 0))
    data[8:12] = length
    with pytest.raises(CorruptBatch):
        scan_fetched(data, 9)

"""The vectorised varint reader and the three ways to follow a chain of records."""

from itertools import accumulate

import numpy as np
import pytest

from tidelog.env.prng import Prng
from tidelog.errors import CorruptBatch
from tidelog.pipeline.varints import RecordBytes, record_starts
from tidelog.records.record import encode_varint


def test_reads_every_size_of_varint_also_at_the_end_of_the_buffer():
    values = [0, -1, 1, 63, -64, 64, 8191, -8192, 2**31 - 1, -(2**31), 2**55, 2**63 - 1, -(2**63)]
    fields = [encode_varint(value) for value in values]
    ends = list(accumulate(len(field) for field in fields))
    for last in range(1, len(fields) + 1):
        source = RecordBytes(b"".join(fields[:last]))
        starts = np.array([0, *ends[: last - 1]], dtype=np.int64)
        got, after = source.varints_at(starts)
        assert got.tolist() == values[:last]
        assert after.tolist() == ends[:last]


def test_random_varints_match_their_encoding():
    prng = Prng(1)
    values = [prng.next_u64() - 2**63 >> prng.below(64) for _ in range(3000)]
    fields = [encode_varint(value) for value in values]
    starts = np.cumsum([0, *(len(field) for field in fields[:-1])])
    got, _ = RecordBytes(b"".join(fields)).varints_at(starts)
    assert got.tolist() == values


@pytest.mark.parametrize("size", [1, 7, 8, 9, 12])
def test_a_varint_without_an_end_is_corrupt(size):
    source = RecordBytes(b"\xff" * size)
    if size < 8:  # Padded with zeros, which end it behind the buffer; the caller sees that.
        _, after = source.varints_at(np.array([0]))
        assert after[0] > size
        return
    with pytest.raises(CorruptBatch, match="varint"):
        source.varints_at(np.array([0]))


def test_positions_outside_the_buffer_never_read_foreign_bytes():
    source = RecordBytes(bytes(range(1, 21)))
    words = source.words_at(np.array([-5, 12, 16, 19, 20, 2**62]))
    assert words[1] == int.from_bytes(bytes(range(13, 21)), "little")
    assert words[2] == int.from_bytes(bytes(range(17, 21)), "little")
    assert words[3] == 20
    assert words[4:].tolist() == [20, 20]  # The last byte at most: whatever, but of this buffer.


def _chains(prng: Prng, counts: list[int], lengths: tuple[int, ...]):
    """Batches of records with the given lengths: bytes, batch starts and ends, record starts."""
    body = bytearray()
    starts, ends, records = [], [], []
    for count in counts:
        starts.append(len(body))
        for _ in range(count):
            records.append(len(body))
            length = prng.choice(lengths)
            body += encode_varint(length) + bytes(
                prng.below(256) for _ in range(min(length, 9))
            ).ljust(length)
        ends.append(len(body))
    return bytes(body), np.array(starts), np.array(ends), records


@pytest.mark.parametrize(
    ("counts", "lengths"),
    [
        ([3] * 400, (7, 20, 90)),  # abreast
        ([5, 0, 1, 9, 0] * 60, (7, 20, 9000)),  # abreast, with empty batches and long fields
        ([2000], (40,)),  # in strides
        ([600] * 15 + [0, 3], (40,)),  # in strides, many batches
        ([90] * 120, (40, 41)),  # abreast, since strides would break
        ([700, 900], (40, 40, 40, 40, 40, 40, 40, 40, 41)),  # strides that keep breaking
        ([3000, 1], (7, 63, 64, 80)),  # one by one
        ([40], (8191, 8192, 20_000)),  # one by one, three-byte fields
    ],
)
def test_record_starts_are_found_whatever_the_shape(counts, lengths):
    body, starts, ends, records = _chains(Prng(len(counts)), counts, lengths)
    got = record_starts(RecordBytes(body), starts, ends, np.array(counts))
    assert got.tolist() == records


def test_no_batches_have_no_records():
    nothing = np.empty(0, dtype=np.int64)
    assert record_starts(RecordBytes(b""), nothing, nothing, nothing).tolist() == []


@pytest.mark.parametrize("lengths", [(40,), (7, 20, 41)])
def test_a_chain_that_leaves_its_batch_is_corrupt(lengths):
    body, starts, ends, _ = _chains(Prng(3), [500], lengths)
    with pytest.raises(CorruptBatch, match="than its batch has"):
        record_starts(RecordBytes(body), starts, ends - 1, np.array([501]))

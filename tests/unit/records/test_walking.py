"""Walking finds what decoding finds, and refuses what decoding refuses."""

import pytest

from tidelog.env.prng import Prng
from tidelog.errors import CorruptBatch
from tidelog.records.record import Record, decode_records, encode_records
from tidelog.records.walking import timestamp_delta_of, walk_records, with_timestamp_delta


def drawn(prng: Prng) -> list[Record]:
    """Records with fields of one, two and three bytes of length."""
    return [
        Record(
            1_000 + prng.choice((0, -1, 63, 64, 1 << 40)),
            prng.choice((None, b"", b"k" * prng.below(200), b"k" * 20_000)),
            prng.choice((None, b"", b"v" * prng.below(200))),
            prng.choice(((), (("h", b"1"), ("i", None)))),
        )
        for _ in range(prng.between(1, 90))
    ]


@pytest.mark.parametrize("seed", range(20))
def test_walked_is_what_was_encoded(seed: int) -> None:
    records = drawn(Prng(seed))
    body = encode_records(records, 1_000)
    walked = list(walk_records(body, len(records)))
    assert [record[3] for record in walked] == [record.key for record in records]
    assert [record[4] for record in walked] == [record.value is not None for record in records]
    assert [record[2] for record in walked] == list(range(len(records)))
    assert b"".join(body[start:end] for start, end, *_ in walked) == body
    deltas = [timestamp_delta_of(body, start) for start, *_ in walked]
    assert deltas == [record.timestamp - 1_000 for record in records]


@pytest.mark.parametrize("seed", range(10))
def test_another_base_of_the_timestamps(seed: int) -> None:
    """Everything else stays."""
    records = drawn(Prng(seed))
    body = encode_records(records, 1_000)
    moved = b"".join(
        with_timestamp_delta(body, start, end, timestamp_delta_of(body, start) - 77)
        for start, end, *_ in walk_records(body, len(records))
    )
    again = decode_records(moved, count=len(records), base_offset=0, base_timestamp=1_077)
    assert again == [record._replace(offset=index) for index, record in enumerate(records)]


@pytest.mark.parametrize("seed", range(20))
def test_cut_and_damaged_bodies_are_refused_or_end(seed: int) -> None:
    """Whatever the bytes: no other error, and never beyond the body."""
    prng = Prng(seed)
    records = drawn(prng)
    body = bytearray(encode_records(records, 1_000))
    with pytest.raises(CorruptBatch):
        list(walk_records(bytes(body[:-1]), len(records)))
    with pytest.raises(CorruptBatch):
        list(walk_records(bytes(body) + b"x", len(records)))
    for _ in range(50):
        body[prng.below(min(len(body), 300))] = prng.below(256)
        try:
            for start, end, *_ in walk_records(bytes(body), len(records)):
                assert 0 <= start < end <= len(body)
        except CorruptBatch:
            continue

"""Varints and records at the edges of their encoding."""

import pytest

from tidelog.env.prng import Prng
from tidelog.errors import CorruptBatch
from tidelog.records.record import (
    Record,
    decode_records,
    decode_varint,
    encode_records,
    encode_varint,
)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (300, "d804")],
)
def test_known_varints(value: int, encoded: str) -> None:
    """Goal: golden values of zig-zag encoding."""
    assert encode_varint(value).hex() == encoded
    assert decode_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


def test_varints_read_back_over_the_whole_range() -> None:
    """Goal: 64-bit extremes and random values of every length survive."""
    prng = Prng(3)
    values = [2**63 - 1, -(2**63), *(prng.next_u64() >> shift for shift in range(1, 64))]
    for value in values + [-value for value in values[2:]]:
        assert decode_varint(encode_varint(value), 0)[0] == value


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 11])
def test_cut_and_endless_varints_are_refused(data: bytes) -> None:
    """Goal: no read beyond the buffer and no unbounded number."""
    with pytest.raises(CorruptBatch):
        decode_varint(data, 0)


def test_the_number_of_records_must_fit() -> None:
    """Goal: a count above or below what the body holds is refused."""
    body = encode_records([Record(5, b"k", b"v"), Record(6, b"k", b"v")], 5)
    for count in (-1, 1, 3):
        with pytest.raises(CorruptBatch):
            decode_records(body, count=count, base_offset=0, base_timestamp=5)
    assert len(decode_records(body, count=2, base_offset=0, base_timestamp=5)) == 2


def test_a_header_key_that_is_not_text_is_refused() -> None:
    """Goal: undecodable bytes become a peer fault, never a UnicodeDecodeError."""
    body = encode_records([Record(5, None, None, (("ab", None),))], 5).replace(b"ab", b"\xff\xfe")
    with pytest.raises(CorruptBatch):
        decode_records(body, count=1, base_offset=0, base_timestamp=5)

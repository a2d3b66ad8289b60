"""Varints and records at the edges of their encoding."""

import pytest

from tidelog.env.prng import Prng
from tidelog.errors import CorruptBatch
from tidelog.records.record import (
    Record,
    decode_records,
    decode_values,
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


def test_values_alone_are_those_of_the_records() -> None:
    """Goal: `decode_values` reads what `decode_records` reads, of plain records and of all others.
    Method: values of each length about the ends of one and two bytes of a varint, more records than
    fit in one byte, and keys, headers, timestamps and nulls between them."""
    sizes = (0, 1, 62, 63, 64, 65, 127, 128, 8191, 8192, 16_384)
    plain = [Record(5, None, b"v" * size) for size in sizes]
    others = [
        Record(5, b"k", b"v"),
        Record(5, b"", b""),
        Record(5, None, None),
        Record(9, None, b"later"),
        Record(5, None, b"v", (("h", None),)),
    ]
    prng = Prng(8)
    records = plain + [prng.choice(plain[:8] + others) for _ in range(300)]
    body = encode_records(records, 5)
    count = len(records)
    read = decode_records(body, count=count, base_offset=0, base_timestamp=5)
    assert [record._replace(offset=0) for record in read] == records
    assert decode_values(body, count) == [record.value for record in records]


def test_a_changed_byte_is_read_as_the_records_are() -> None:
    """Goal: where `decode_records` refuses a body so does `decode_values`, and otherwise they
    agree. Method: every bit of every byte of a small body, and every cut."""
    records = [Record(5, None, b"a" * 3), Record(5, None, b"b" * 70), Record(5, b"k", b"c")]
    body = encode_records(records, 5)
    changed = [body[:size] for size in range(len(body))]
    for position in range(len(body)):
        for bit in range(8):
            byte = body[position] ^ 1 << bit
            changed.append(body[:position] + bytes((byte,)) + body[position + 1 :])
    outcomes = []
    for each in changed:
        try:
            read = decode_records(each, count=3, base_offset=0, base_timestamp=5)
        except CorruptBatch:
            with pytest.raises(CorruptBatch):
                decode_values(each, 3)
            outcomes.append(False)
        else:
            assert decode_values(each, 3) == [record.value for record in read]
            outcomes.append(True)
    assert len(set(outcomes)) == 2

"""Keys and values cut out of a batch are those that the general decoder finds."""

import pytest

from tidelog.env.prng import Prng
from tidelog.records import pairs
from tidelog.records.batch import build_batch, decode_body, iter_headers
from tidelog.records.compression import Codec
from tidelog.records.pairs import decode_pairs
from tidelog.records.record import Record


def both(records, codec=Codec.NONE):
    """The pairs, and those of the general decoder."""
    data = bytes(build_batch(records, codec=codec))
    place, header = next(iter_headers(data))
    known = [(each.key, each.value) for each in decode_body(data, place, header)]
    return decode_pairs(data, place, header), known


def some_bytes(prng: Prng, length: int) -> bytes:
    return bytes(prng.below(256) for _ in range(length))


def records_of(prng: Prng) -> list[Record]:
    """Records of a few forms, those of one form behind each other, some with what a run has not."""
    found = []
    for _ in range(prng.between(1, 4)):
        key_bytes, value_bytes = prng.choice((0, 1, 30, 63, 64, 200)), prng.choice((0, 25, 63, 64))
        has_key, has_value = prng.chance(9, 10), prng.chance(9, 10)
        headers = (("h", b"v"),) if prng.chance(1, 10) else ()
        found += [
            Record(
                prng.below(1 << prng.choice((1, 10, 40))),
                some_bytes(prng, key_bytes) if has_key else None,
                some_bytes(prng, value_bytes) if has_value else None,
                headers,
            )
            for _ in range(prng.choice((1, 7, 8, 9, 70, 200)))
        ]
    return found


@pytest.mark.parametrize("seed", range(200))
def test_pairs_are_those_of_the_general_decoder(seed):
    found, known = both(records_of(Prng(seed)), Codec(seed % 5))
    assert found == known


@pytest.mark.parametrize("count", [8, 64, 65, 1000])
@pytest.mark.parametrize("has_keys", [True, False], ids=["keys", "no keys"])
@pytest.mark.parametrize("more", [0, 60, 9000], ids=["short", "two bytes", "three bytes"])
def test_records_of_one_form_are_cut_out_without_decoding_them(count, has_keys, more, monkeypatch):
    key = b"key %4d" if has_keys else None
    records = [
        Record(5, key and key % each, b"value %4d" % each + b"." * more) for each in range(count)
    ]
    _, known = both(records)
    monkeypatch.delattr(pairs, "decode_body")
    data = bytes(build_batch(records))
    place, header = next(iter_headers(data))
    assert decode_pairs(data, place, header) == known


@pytest.mark.parametrize("odd", [0, 5, 19])
def test_a_record_with_a_header_of_no_more_bytes_than_its_value_lacks(odd):
    """All records have one size, and one of them is made up otherwise."""
    records = [Record(5, b"key", b"v" * 20) for _ in range(20)]
    records[odd] = Record(5, b"key", b"v" * 15, (("abc", b""),))
    found, known = both(records)
    assert found == known

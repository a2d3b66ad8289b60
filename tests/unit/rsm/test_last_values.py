"""Goal: of each key the last value is left, where it was written, and memory is bounded."""

import pytest

from tidelog.env.prng import Prng
from tidelog.rsm import last_values
from tidelog.rsm.last_values import RECORD_BYTES, LastValues


def taken(held, most_bytes=1 << 20):
    return held.take(most_bytes)[0]


@pytest.mark.parametrize("seed", range(20))
def test_the_last_value_of_each_key_is_left_where_it_was_written(seed):
    prng, held = Prng(seed), LastValues()
    written, out = [], []
    for _ in range(prng.between(1, 20)):
        records = [(b"%d" % prng.below(9), b"%d" % prng.below(99)) for _ in range(prng.below(9))]
        held.hold(records, 10 * len(records))
        written += records
        if prng.chance(1, 4):
            out += taken(held, prng.below(60))
    out += taken(held)
    assert not held
    # What went out early may have been written once more; else each key is there once.
    assert dict(out) == dict(written)
    last = {key: place for place, (key, _) in enumerate(written)}
    final = [key for key, _ in reversed(dict(reversed(out)).items())]
    places = [last[key] for key in dict.fromkeys(key for key, _ in reversed(out))]
    assert places == sorted(places, reverse=True) and set(final) == set(last)


def test_a_tombstone_is_a_value_and_a_record_without_a_key_is_none():
    held = LastValues()
    held.hold([(b"a", b"1"), (None, b"2"), (b"a", None)], 30)
    assert taken(held) == [(b"a", None)]


def test_a_piece_is_bounded_and_has_at_least_one_record():
    held = LastValues()
    held.hold([(b"%d" % each, b"v" * 9) for each in range(5)], 50)
    size = 10 + RECORD_BYTES
    assert held.take(0) == ([], 0)
    assert held.take(1) == ([(b"0", b"v" * 9)], size)
    assert held.take(size + 1) == ([(b"1", b"v" * 9), (b"2", b"v" * 9)], 2 * size)
    assert len(held) == 2 and len(taken(held)) == 2


def test_it_is_full_with_so_many_keys(monkeypatch):
    monkeypatch.setattr(last_values, "COORDINATOR_HELD_KEYS", 3)
    held = LastValues()
    for _ in range(3):
        held.hold([(b"a", b"1"), (b"b", b"2")], 4)
        assert not held.is_full
    held.hold([(b"c", b"1")], 4)
    assert held.is_full
    taken(held, 1)
    assert not held.is_full


def test_it_is_full_with_so_many_bytes_that_were_not_overwritten(monkeypatch):
    monkeypatch.setattr(last_values, "COORDINATOR_HELD_BYTES", 100)
    held = LastValues()
    for _ in range(100):
        held.hold([(b"a", b"v" * 20)], 21)
        assert not held.is_full
    held.hold([(b"b", b"v" * 20), (b"a", None)], 22)
    assert not held.is_full
    for key in (b"c", b"d", b"e"):
        assert not held.is_full
        held.hold([(key, b"v" * 30)], 31)
    assert held.is_full
    taken(held)
    assert not held.is_full

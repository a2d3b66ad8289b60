"""Seeded numbers: the same on every machine, within their bounds, and all of them."""

import pytest

from tidelog.env.prng import Prng


def test_a_seed_is_a_sequence():
    assert [Prng(7).next_u64() for _ in range(2)] == [Prng(7).next_u64()] * 2
    assert Prng(7).next_u64() != Prng(8).next_u64()
    assert 0 <= min(Prng(seed).next_u64() for seed in range(50)) < 1 << 64


@pytest.mark.parametrize(("low", "high"), [(0, 0), (3, 5), (-2, 2)])
def test_every_number_of_a_range_is_drawn(low, high):
    prng = Prng(1)
    assert {prng.between(low, high) for _ in range(200)} == set(range(low, high + 1))
    assert {prng.below(high - low + 1) for _ in range(200)} == set(range(high - low + 1))


def test_a_chance_is_a_ratio():
    prng = Prng(1)
    assert not any(prng.chance(0, 100) for _ in range(100))
    assert all(prng.chance(100, 100) for _ in range(100))
    assert 150 < sum(prng.chance(1, 5) for _ in range(1_000)) < 250


def test_choices_and_ids():
    prng = Prng(1)
    assert {prng.choice("abc") for _ in range(50)} == set("abc")
    assert len({prng.uuid() for _ in range(50)}) == 50

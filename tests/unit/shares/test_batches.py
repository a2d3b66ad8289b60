"""Goal: of two reports about a record the one with more deliveries counts, in whatever order."""

from itertools import pairwise

from tidelog.env.prng import Prng
from tidelog.shares.batches import StateBatch, combined

SEED = 4711


def by_offset(batches, start_offset):
    """What counts for each offset, found one by one."""
    found = {}
    for first, last, state, count in batches:
        for offset in range(max(first, start_offset), last + 1):
            found[offset] = max(found.get(offset, (count, state)), (count, state))
    return found


def test_neighbours_in_one_state_are_one_run():
    first, second = StateBatch(0, 4, 2, 1), StateBatch(5, 9, 2, 1)
    assert combined([second, first], -1) == (StateBatch(0, 9, 2, 1),)


def test_more_deliveries_count_and_then_the_higher_state():
    old, new = StateBatch(0, 9, 2, 1), StateBatch(3, 4, 0, 2)
    split = (StateBatch(0, 2, 2, 1), new, StateBatch(5, 9, 2, 1))
    assert combined([old, new], -1) == split
    assert combined([new, old], -1) == split
    archived, available = StateBatch(0, 0, 4, 2), StateBatch(0, 0, 0, 2)
    assert combined([archived, available], -1) == (archived,)


def test_nothing_is_kept_below_the_start_offset():
    runs = [StateBatch(0, 2, 2, 1), StateBatch(3, 7, 0, 1)]
    assert combined(runs, 5) == (StateBatch(5, 7, 0, 1),)
    assert combined(runs, 8) == ()


def test_random_runs_are_as_one_by_one():
    prng = Prng(SEED)
    for _ in range(300):
        batches = []
        for _ in range(prng.below(8)):
            first = prng.below(30)
            states = 2 * prng.below(3), 1 + prng.below(3)
            batches.append(StateBatch(first, first + prng.below(8), *states))
        start_offset = prng.below(31) - 1
        found = combined(batches, start_offset)
        assert by_offset(found, -1) == by_offset(batches, start_offset)
        for before, after in pairwise(found):
            assert before.last_offset < after.first_offset
            joins = before.last_offset + 1 == after.first_offset
            assert not joins or before[2:] != after[2:]

"""The budget of all tail caches: which cache is emptied, and that the sum is right."""

from tidelog.env.prng import Prng
from tidelog.log.tail_budget import TailBudget
from tidelog.log.tail_cache import TailCache


def test_the_log_that_is_idle_longest_loses_its_cache() -> None:
    """Goal: as a whole, and no other one; it fills again."""
    budget = TailBudget(300)
    one, two, three = (TailCache(1_000, budget) for _ in range(3))
    one.append(0, 0, bytes(100))
    two.append(0, 0, bytes(100))
    one.append(1, 1, bytes(100))
    assert budget.used_bytes == 300
    three.append(0, 0, bytes(50))
    assert [cache.size_bytes for cache in (one, two, three)] == [200, 0, 50]
    assert two.read(0, 1_000, 1, True) is None
    two.append(1, 1, bytes(50))
    assert [cache.size_bytes for cache in (one, two, three)] == [200, 50, 50]
    assert budget.used_bytes == 300


def test_a_single_cache_may_have_all() -> None:
    """Goal: the batch that was just appended stays for the followers that wait for it."""
    budget = TailBudget(100)
    one, two = TailCache(1_000, budget), TailCache(1_000, budget)
    one.append(0, 0, bytes(50))
    two.append(0, 0, bytes(500))
    assert (one.size_bytes, two.size_bytes, budget.used_bytes) == (0, 500, 500)


def test_the_sum_is_what_the_caches_hold() -> None:
    """Goal: through appends, cuts and clearing, in any order."""
    prng = Prng(7)
    budget = TailBudget(2_000)
    caches = [TailCache(700, budget) for _ in range(5)]
    ends = [0] * 5
    for _ in range(2_000):
        index = prng.below(5)
        cache = caches[index]
        action = prng.below(10)
        if action == 0:
            ends[index] = prng.below(ends[index] + 1)
            cache.truncate_to(ends[index])
        elif action == 1:
            cache.clear()
        else:
            cache.append(ends[index], ends[index], bytes(prng.between(1, 200)))
            ends[index] += 1
        cache.check(ends[index])
        assert budget.used_bytes == sum(each.size_bytes for each in caches) <= 2_000

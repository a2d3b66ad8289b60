"""The tail cache: bounds, windows, and the objects themselves."""

from tidelog.env.prng import Prng
from tidelog.log.tail_cache import TailBudget, TailCache


def _cache(count: int, limit_bytes: int = 1_000) -> TailCache:
    cache = TailCache(TailBudget(), limit_bytes)
    for index in range(count):
        cache.append(2 * index, 2 * index + 1, bytes([index % 256]) * 100)
    return cache


def test_the_oldest_go_first() -> None:
    """Goal: the bound holds after every append and the window ends at the log's end."""
    cache = _cache(25)
    assert (cache._bases[cache._first], cache.size_bytes) == (30, 1_000)
    cache.check(50)
    assert cache.read(29, 500, 50, True) is None
    read = cache.read(30, 500, 50, True)
    assert read is not None and (read.first_offset, read.next_offset) == (30, 40)


def test_reads_hand_out_the_very_objects() -> None:
    """Goal: no copy for a follower; the same bytes object twice."""
    cache = _cache(3)
    first, second = cache.read(2, 100, 6, True), cache.read(2, 100, 6, True)
    assert first is not None and second is not None
    assert first.chunks[0] is second.chunks[0]


def test_many_batches_are_joined() -> None:
    """Goal: a long list of tiny batches becomes one chunk with the same bytes."""
    cache = _cache(200, 100_000)
    read = cache.read(0, 100_000, 400, True)
    assert read is not None and len(read.chunks) == 1
    assert read.chunks[0] == b"".join(bytes([index]) * 100 for index in range(200))


def test_a_batch_above_the_bound_empties_the_cache() -> None:
    """Goal: nothing larger than the bound is kept; the next batch begins a new window."""
    cache = _cache(3)
    cache.append(6, 7, bytes(2_000))
    assert cache.size_bytes == 0 and cache._first == len(cache._bases)
    cache.append(8, 9, b"x" * 10)
    assert cache.read(6, 100, 10, True) is None
    read = cache.read(8, 100, 10, True)
    assert read is not None and read.size_bytes == 10


def test_truncation_drops_from_the_offset_on() -> None:
    """Goal: a batch that holds the offset goes too."""
    cache = _cache(5)
    cache.truncate_to(5)
    assert cache.size_bytes == 200
    cache.check(5)
    read = cache.read(2, 1_000, 99, True)
    assert read is not None and read.next_offset == 4


def test_long_runs_stay_small() -> None:
    """Goal: the lists are compacted; method: 5000 appends, then the window is still right."""
    cache = _cache(5_000)
    assert cache._bases[cache._first] == 9_980
    cache.check(10_000)
    assert len(cache._bases) < 2_000


# The budget of all caches -----------------------------------------------------------------


def test_the_log_that_is_idle_longest_loses_its_cache() -> None:
    """Goal: as a whole, and no other one; it fills again."""
    budget = TailBudget(300)
    one, two, three = (TailCache(budget, 1_000) for _ in range(3))
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
    one, two = TailCache(budget, 1_000), TailCache(budget, 1_000)
    one.append(0, 0, bytes(50))
    two.append(0, 0, bytes(500))
    assert (one.size_bytes, two.size_bytes, budget.used_bytes) == (0, 500, 500)


def test_the_sum_is_what_the_caches_hold() -> None:
    """Goal: through appends, cuts and clearing, in any order."""
    prng = Prng(7)
    budget = TailBudget(2_000)
    caches = [TailCache(budget, 700) for _ in range(5)]
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

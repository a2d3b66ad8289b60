"""Goal: every deadline comes up once, at its time, however often it was moved."""

import pytest

from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.rsm.timers import Timers


@pytest.mark.parametrize("seed", range(20))
def test_against_a_plain_dictionary(seed):
    prng = Prng(seed)
    timers, expected = Timers[tuple[str, str]](), {}
    now = 0
    for _ in range(500):
        now += prng.below(5)
        due = set()
        while (key := timers.take_due(Instant(now))) is not None:
            due.add(key)
        assert due == {key for key, at in expected.items() if at <= now}
        for key in due:
            del expected[key]
        key = ("g", f"m{prng.below(10)}")
        if prng.chance(1, 4):
            timers.clear(key)
            expected.pop(key, None)
        elif prng.chance(1, 3):
            deadline = now + prng.between(1, 40)
            is_later = deadline < expected.get(key, 0)
            assert timers.hasten(key, Instant(deadline)) is is_later
            if is_later:
                expected[key] = deadline
        else:
            expected[key] = now + prng.between(1, 40)
            timers.set(key, Instant(expected[key]))
        timers.check()
        earliest = timers.next()
        assert not expected or (earliest is not None and earliest <= min(expected.values()))
        assert all(timers.has(each) for each in expected)


def test_heartbeats_do_not_fill_the_heap():
    timers = Timers[tuple[str, str]]()
    for now in range(10_000):
        timers.set(("g", "m"), Instant(now + 10_000))
    assert len(timers._heap) == 1

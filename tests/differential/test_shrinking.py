"""Shrinking leaves the steps that a difference needs, and no others."""

import pytest

from tests.differential.shrinking import shrink
from tests.differential.steps import Step
from tidelog.env.prng import Prng

STEPS = [Step(number, 0, 0, 0, {}) for number in range(40)]


@pytest.mark.parametrize("seed", range(10))
def test_only_what_is_needed_stays(seed):
    prng = Prng(seed)
    needed = {39} | {prng.below(39) for _ in range(prng.below(5))}
    fewest = shrink(STEPS, lambda steps: needed <= {each.number for each in steps}, 1000)
    assert {each.number for each in fewest} == needed


def test_it_stops_after_so_many_tries():
    asked = []
    assert shrink(STEPS, lambda steps: bool(asked.append(steps)), 7) == STEPS
    assert len(asked) == 7

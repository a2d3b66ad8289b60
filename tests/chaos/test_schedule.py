"""Schedules: the same from the same seed, every kind in each."""

from tests.chaos.schedule import Fault, Role, draw_schedule

SEEDS = range(50)


def test_a_seed_gives_one_schedule():
    assert draw_schedule(7, 40) == draw_schedule(7, 40)
    assert draw_schedule(7, 40) != draw_schedule(8, 40)


def test_every_kind_of_fault_comes_up_before_any_comes_up_twice():
    for seed in SEEDS:
        faults = [step.fault for step in draw_schedule(seed, 40)]
        assert set(faults[: len(Fault)]) == set(Fault)


def test_every_role_is_aimed_at_and_faults_overlap():
    steps = [step for seed in SEEDS for step in draw_schedule(seed, 20)]
    assert {step.role for step in steps} == set(Role)
    inner = [step.within.fault for step in steps if step.within is not None]
    assert {Fault.KILL, Fault.PAUSE, Fault.CUT} <= set(inner)
    assert not {Fault.ROLLING, Fault.KILL_ALL} & set(inner)


def test_a_step_says_what_it_does():
    texts = [str(step) for seed in SEEDS for step in draw_schedule(seed, 20)]
    assert any("[" in text for text in texts)
    assert all(" of " in text and " ms" in text for text in texts)

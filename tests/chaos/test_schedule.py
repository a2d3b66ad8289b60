"""Schedules: the same from the same seed, every kind in each."""

from tests.chaos.kinds import Kind, command_of, mixed_kinds, parse_kinds
from tests.chaos.schedule import OF_SECURITY, Fault, Role, draw_schedule

SEEDS = range(50)
OWN = {fault for fault, _ in OF_SECURITY}
USUAL = set(Fault) - OWN


def test_a_seed_gives_one_schedule():
    assert draw_schedule(7, 40) == draw_schedule(7, 40)
    assert draw_schedule(7, 40) != draw_schedule(8, 40)


def test_every_kind_of_fault_comes_up_before_any_comes_up_twice():
    for seed in SEEDS:
        faults = [step.fault for step in draw_schedule(seed, 40)]
        assert set(faults[: len(USUAL) - 1]) == USUAL - {Fault.CHANGE}
        with_kinds = [step.fault for step in draw_schedule(seed, 40, kinds=True)]
        assert set(with_kinds[: len(USUAL) - 1]) == USUAL - {Fault.MOVE}
        protected = [step.fault for step in draw_schedule(seed, 40, secure=True)]
        assert set(protected[: len(OF_SECURITY)]) == OWN
        assert set(protected) == set(Fault) - {Fault.CHANGE}


def test_a_cluster_is_mixed_by_two_and_one_on_any_node():
    drawn = {mixed_kinds(seed) for seed in range(6)}
    assert len(drawn) == 6
    assert all({kinds.count(kind) for kind in Kind} == {1, 2} for kinds in drawn)
    assert all(parse_kinds(command_of(kinds)) == kinds for kinds in drawn)


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

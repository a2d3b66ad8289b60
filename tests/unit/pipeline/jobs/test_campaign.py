"""Every seed in one task, the last tasks small."""

import pytest

from tidelog.pipeline.jobs.campaign import plan_tasks, unfinished


def _sizes(seeds, per_task, cores):
    return [len(task) for task in plan_tasks(range(seeds), per_task, cores)]


def test_a_seed_is_finished_by_a_verdict_that_the_seed_alone_decides():
    verdicts = {1: "clean", 2: "violation", 3: "crash", 4: "timeout"}
    runs = [{"seed": seed, "verdict": verdict} for seed, verdict in verdicts.items()]
    assert unfinished(range(1, 6), runs) == [3, 4, 5]
    # Tried again, and then decided.
    assert unfinished(range(3, 5), [*runs, {"seed": 3, "verdict": "clean"}]) == [4]


@pytest.mark.parametrize(
    ("seeds", "per_task", "cores"), [(1, 10, 2), (40, 5, 2), (100, 10, 4), (101, 10, 1), (3, 1, 8)]
)
def test_each_seed_is_in_one_task_and_in_order(seeds, per_task, cores):
    tasks = plan_tasks(range(seeds), per_task, cores)
    assert [seed for task in tasks for seed in task] == list(range(seeds))
    assert all(1 <= len(task) <= per_task for task in tasks)


def test_tasks_become_smaller_towards_the_end():
    assert _sizes(40, 5, 2) == [5, 5, 5, 5, 5, 4, 3, 2, 2, 1, 1, 1, 1]
    assert _sizes(4, 100, 1) == [2, 1, 1]
    # No task gets more than half of a core's share, however much it may have.
    assert _sizes(40, 100, 2)[0] == 10


def test_no_seeds_make_no_tasks():
    assert plan_tasks([], 10, 4) == []

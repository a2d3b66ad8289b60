"""Stories of bugs that other logs had: they go well here, and each needs its safeguards."""

import pytest

from tidelog.sim.ablations import SAFEGUARDS, ablate
from tidelog.sim.campaign import CLUSTER, STORY, replay_command, run_seed
from tidelog.sim.regressions.stories import STORIES

TWINS = [one for one in SAFEGUARDS if one.tier == STORY]


@pytest.mark.parametrize("number", STORIES)
def test_a_story_goes_well(number):
    outcome = run_seed(CLUSTER, number, 1)
    assert outcome.violation is None
    assert outcome.events > 0


@pytest.mark.parametrize("safeguard", TWINS, ids=lambda one: f"{one.scenario}-{one.name}")
def test_a_story_needs_its_safeguard(safeguard):
    kill = ablate(safeguard, range(1, 2))
    assert kill.violated is not None


def test_every_story_has_a_negative_twin():
    assert sorted(STORIES) == sorted({one.scenario for one in TWINS})


def test_a_story_is_the_same_twice():
    first, second = (run_seed(CLUSTER, "r10", 7).trace_hash for _ in range(2))
    assert first == second
    assert first != run_seed(CLUSTER, "r01", 7).trace_hash


def test_a_story_is_replayed_by_its_number():
    assert replay_command(STORY, "r10", 1) == "tidelog sim replay 1 --scenario r10 --trace"


def test_stories_say_where_they_come_from():
    for number, story in STORIES.items():
        assert story.name.startswith(f"{number}_")
        assert min(len(story.title), len(story.origin), len(story.story), len(story.must)) > 5

"""Seeds of both tiers: the production node under faults, every checker watching."""

from pathlib import Path

import pytest

from tidelog.sim.campaign import replay_command, run_seed
from tidelog.sim.promises.families import FAMILIES
from tidelog.sim.scenarios import names

KNOWN = [
    tuple(line.split())
    for line in (Path(__file__).parent / "seeds.txt").read_text().splitlines()
    if line and not line.startswith("#")
]

FRESH = [
    ("cluster", scenario, seed)
    for seed in (1, 2)
    for scenario in names()
    if scenario != "all" and scenario not in FAMILIES
]

QUORUM_SEEDS = 150


def play(tier: str, scenario: str, seed: int) -> None:
    """A clean run, or the command that shows it again."""
    outcome = run_seed(tier, scenario, seed)
    replay = replay_command(tier, scenario, seed)
    assert outcome.violation is None, f"{outcome.violation}\n  replay: {replay}"


@pytest.mark.parametrize(("tier", "scenario", "seed"), KNOWN)
def test_a_seed_that_once_failed(tier, scenario, seed):
    play(tier, scenario, int(seed))


@pytest.mark.parametrize(("tier", "scenario", "seed"), FRESH)
def test_each_family_of_faults(tier, scenario, seed):
    play(tier, scenario, seed)


@pytest.mark.parametrize("first", range(0, QUORUM_SEEDS, 50))
def test_the_quorum_alone(first):
    for seed in range(first, first + 50):
        play("quorum", "all", seed)

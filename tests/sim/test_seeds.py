"""Seeds of both tiers: the production node under faults, every checker watching."""

from pathlib import Path

import pytest

from tidelog.sim.campaign import Tally, replay_command, run_seed
from tidelog.sim.faults.kinds import FaultKind
from tidelog.sim.marks import MARKS
from tidelog.sim.outcome import Outcome
from tidelog.sim.promises.families import FAMILIES
from tidelog.sim.scenarios import names

KNOWN = [
    tuple(line.split())
    for line in (Path(__file__).parent / "seeds.txt").read_text().splitlines()
    if line and not line.startswith("#")
]

FRESH = [
    ("cluster", scenario, seed)
    for seed in (1,)
    for scenario in names()
    if scenario != "all" and scenario not in FAMILIES
]

QUORUM_SEEDS = 500
CLUSTER_SEEDS = 50


def play(tier: str, scenario: str, seed: int) -> Outcome:
    """A clean run, or the command that shows it again."""
    outcome = run_seed(tier, scenario, seed)
    replay = replay_command(tier, scenario, seed)
    assert outcome.violation is None, f"{outcome.violation}\n  replay: {replay}"
    return outcome


@pytest.mark.parametrize(("tier", "scenario", "seed"), KNOWN)
def test_a_seed_that_once_failed(tier, scenario, seed):
    play(tier, scenario, int(seed))


@pytest.mark.parametrize(("tier", "scenario", "seed"), FRESH)
def test_each_family_of_faults(tier, scenario, seed):
    play(tier, scenario, seed)


def test_whole_nodes_under_whatever_a_seed_draws():
    tally = Tally()
    for seed in range(1, CLUSTER_SEEDS + 1):
        tally.add(play("cluster", "all", seed))
    idle = [kind.value for kind in FaultKind if not tally.fired[kind.value]]
    assert len(idle) <= 2, f"kinds that never mattered: {idle}"
    assert len(tally.marks) > len(MARKS) // 2


@pytest.mark.parametrize("first", range(0, QUORUM_SEEDS, 50))
def test_the_quorum_alone(first):
    for seed in range(first, first + 50):
        play("quorum", "all", seed)

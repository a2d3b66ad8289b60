"""Each promise has a family of runs, and each family keeps within its promise."""

from dataclasses import replace

import pytest

from tidelog.sim.report.outcome import Outcome
from tidelog.sim.runs.cluster import ClusterRun
from tidelog.sim.scenarios.families import swarm_of
from tidelog.sim.scenarios.promises import FAMILIES

SHORT_MS = 6_000


def short_run(scenario: str, seed: int) -> Outcome:
    """A run with few faults: the campaign has the others."""
    swarm = replace(swarm_of(scenario, seed), fault_phase_ms=SHORT_MS)
    outcome = ClusterRun(seed, swarm).run()
    assert outcome.violation is None, f"{scenario} {seed}: {outcome.violation}"
    return outcome


@pytest.mark.parametrize("scenario", sorted(FAMILIES))
def test_a_run_of_each_promise(scenario):
    assert short_run(scenario, 2).acknowledged


@pytest.mark.parametrize("seed", range(30))
def test_only_group_commit_may_lose_power_everywhere(seed):
    for scenario in FAMILIES:
        swarm = swarm_of(scenario, seed)
        assert swarm.group_commit or not any(kind.needs_group_commit for kind in swarm.faults)


def test_what_power_cuts_do_is_counted():
    outcome = short_run("power-cuts-single", 2)
    assert outcome.faults["power-cut"] > 5
    faults = outcome.fired
    assert sum(faults[kind] for kind in ("dropped-writes", "kept-prefix", "kept-all")) > 0

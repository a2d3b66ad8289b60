"""Seeds of both tiers: the production node under faults, every checker watching."""

from dataclasses import replace

import pytest

from tidelog.sim.campaign.seeds import replay_command, run_seed
from tidelog.sim.campaign.tally import Tally
from tidelog.sim.report.marks import MARKS
from tidelog.sim.report.outcome import Outcome
from tidelog.sim.scenarios.families import DATA_LOSS, data_loss_swarm, names, swarm_of
from tidelog.sim.scenarios.fault_kinds import DiskFault, FaultKind
from tidelog.sim.scenarios.promises import FAMILIES
from tidelog.sim.scenarios.swarm import draw, draw_plain, draw_with_disks

OF_FAULTS = [name for name in names() if name != "all" and name not in FAMILIES]

# Few: `make sim` runs seeds that are new with each commit.
QUORUM_SEEDS = 200
CLUSTER_SEEDS = range(1, 21)


def run_and_judge(tier: str, scenario: str, seed: int) -> Outcome:
    """A clean run, or the command that shows it again."""
    outcome = run_seed(tier, scenario, seed)
    replay = replay_command(tier, scenario, seed)
    assert outcome.violation is None, f"{outcome.violation}\n  replay: {replay}"
    return outcome


@pytest.mark.parametrize("scenario", OF_FAULTS)
def test_each_family_of_faults(scenario):
    run_and_judge("cluster", scenario, 1)


def test_whole_nodes_under_whatever_a_seed_draws():
    tally = Tally()
    for seed in CLUSTER_SEEDS:
        tally.add(run_and_judge("cluster", "all", seed))
    idle = [kind.value for kind in FaultKind if not tally.fired[kind.value]]
    assert len(idle) <= 2, f"kinds that never mattered: {idle}"
    assert len(tally.marks) > len(MARKS) // 2


@pytest.mark.parametrize("first", range(0, QUORUM_SEEDS, 50))
def test_the_quorum_alone(first):
    for seed in range(first, first + 50):
        run_and_judge("quorum", "all", seed)


def test_a_fifth_of_the_seeds_has_logins_and_no_other_option_changes():
    secured = {seed: swarm for seed in range(1000) if (swarm := draw(seed)).secured}
    assert 150 < len(secured) < 250
    for seed, swarm in secured.items():
        is_open = replace(swarm, secured=False, session_ms=0, rights_gap_ms=0)
        assert is_open == draw_with_disks(seed)


def test_disks_go_wrong_in_a_fifth_of_the_seeds_or_one_of_several_dies_and_no_other_changes():
    swarms = {seed: draw_with_disks(seed) for seed in range(1000)}
    struck = {seed: swarm for seed, swarm in swarms.items() if swarm.disk_faults}
    dying = [swarm for swarm in struck.values() if swarm.disk_faults == (DiskFault.DISK_DIES,)]
    assert 150 < len(struck) - len(dying) < 250
    assert 100 < len(dying) < 250
    assert all(swarms[seed] == draw_plain(seed) for seed in swarms if seed not in struck)
    kinds = {kind for swarm in struck.values() for kind in swarm.disk_faults}
    assert kinds == set(DiskFault)


def test_damage_stays_within_its_promise_in_whatever_seed():
    damaged = [swarm for seed in range(1000) if (swarm := draw(seed)).damages]
    assert damaged
    assert {"metadata log", "metadata flushed-end"} <= {
        kind for swarm in damaged for kind in swarm.damaged_files
    }
    for swarm in damaged:
        assert (swarm.nodes, swarm.controllers) == (3, 0)
        assert {"data", "metadata checkpoint"} < {*swarm.damaged_files}
        # The witness of what the log held, or the log.
        assert len({"metadata log", "metadata flushed-end"} & {*swarm.damaged_files}) == 1
        assert "metadata quorum-state" not in swarm.damaged_files
        assert {*swarm.faults} <= {FaultKind.KILL, FaultKind.CLEAN_STOP, FaultKind.PAUSE}


OF_DISKS = ("aimed", "all", "p4-damage", "p7-bad-devices", "p7-bad-devices-lazily", "several-disks")


def test_a_family_has_the_disk_faults_that_are_its_own():
    seed = next(seed for seed in range(100) if draw(seed).disk_faults)
    for scenario in names():
        if scenario not in OF_DISKS:
            swarm = data_loss_swarm(seed) if scenario == DATA_LOSS else swarm_of(scenario, seed)
            assert not swarm.disk_faults, scenario

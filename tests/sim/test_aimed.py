"""Aimed faults: what they follow, when they strike, and what stays as it was without them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import pytest

from tidelog.env.memory_disk import Operation
from tidelog.env.trace import Level
from tidelog.kraft.events import BecameLeader, RoleCause, RoleReason
from tidelog.log.checkpoint import CLEAN_SHUTDOWN_FILE, RECOVERY_POINT_FILE
from tidelog.log.events import LogRestarted
from tidelog.model import TopicPartition
from tidelog.sim.ablations import SAFEGUARDS, ablate
from tidelog.sim.engine.world import World
from tidelog.sim.faults.aims import OF_EVENTS, aim_of_event, aim_of_operation
from tidelog.sim.faults.ambush import STRIKES, Ambush
from tidelog.sim.faults.arena import Arena
from tidelog.sim.faults.budget import Budget
from tidelog.sim.runs.cluster import ClusterRun
from tidelog.sim.scenarios.families import names, swarm_of
from tidelog.sim.scenarios.fault_kinds import Aim, DiskFault, FaultKind
from tidelog.sim.scenarios.swarm import draw, draw_plain, stream

LONG: Final = range(500)


def lying_in_wait(world: World, aim: Aim, kind: FaultKind, seed: int = 1) -> Ambush:
    """An ambush on nodes that are not started yet."""
    swarm = replace(draw_plain(1), aims=(aim,), aimed_faults=(kind,), fault_gap_ms=100)
    arena = Arena(world, swarm, stream(seed, "aims"), Budget(world, group_commit=True))
    ambush = Ambush(arena)
    ambush.start()
    return ambush


@contextmanager
def ended_by(world: World, node_id: int) -> Iterator[None]:
    before = world.hosts[node_id].life
    yield
    assert world.hosts[node_id].life > before


def test_what_shows_an_aim():
    cut = LogRestarted(partition=TopicPartition("t", 0), log_end_offset=3)
    assert aim_of_event(cut) is Aim.LOG_RESTARTED
    leads = BecameLeader(
        cause=RoleCause(RoleReason.ELECTED), epoch=1, leader=1, voted=1, log_end=0, high_watermark=0
    )
    assert aim_of_event(leads) is Aim.QUORUM_LED
    assert aim_of_operation(Operation.RENAME, "t-0.abc-future") is Aim.COPY_SWAPPED
    assert aim_of_operation(Operation.RENAME, "t-0") is Aim.LOG_RENAMED
    assert aim_of_operation(Operation.REPLACE, RECOVERY_POINT_FILE) is Aim.CHECKPOINT
    assert aim_of_operation(Operation.DELETE, CLEAN_SHUTDOWN_FILE) is Aim.STOPPING
    assert aim_of_operation(Operation.APPEND, "t-0/00000000000000000000.log") is None


def test_events_that_show_an_aim_are_in_every_trace():
    """A fault that follows a line of a trace must follow it at every level."""

    assert all(event.level >= Level.INFO for event in OF_EVENTS)


@pytest.mark.parametrize("seed", range(12))
def test_a_node_is_struck_in_the_turn_or_a_moment_later(seed):
    """Goal: behind the first thing that is aimed at, by an operation or by the clock."""
    world = World(seed)
    ambush = lying_in_wait(world, Aim.QUORUM_LED, FaultKind.KILL, seed)
    world.start_all()
    world.run_until(lambda: bool(ambush.struck))
    assert ambush.struck.total() == 1
    line = next(at for at, line in enumerate(world.lines) if "kill behind quorum-led" in line)
    seen = next(at for at, line in enumerate(world.lines) if "quorum become_leader" in line)
    assert seen < line
    struck_at, seen_at = (int(world.lines[at].split()[0]) for at in (line, seen))
    assert struck_at - seen_at <= 50
    assert sum(host.node is None for host in world.hosts.values()) == 1


def test_a_start_is_struck_before_there_is_a_node():
    """Goal: each write of a start is a place to die at."""
    for seed in range(10):
        world = World(seed)
        ambush = lying_in_wait(world, Aim.STARTED, FaultKind.POWER_CUT, seed)
        with ended_by(world, 1):
            world.start_all()
            world.run_until(lambda: bool(ambush.struck))  # noqa: B023
        if not world.hosts[1].powered:
            return
    raise AssertionError("no start of node 1 was ever struck")


def test_the_budget_is_asked():
    """Goal: without group commit one node at a time loses what it has not flushed."""
    world = World(1)
    swarm = replace(
        draw_plain(1), aims=(Aim.STARTED,), aimed_faults=(FaultKind.POWER_CUT,), fault_gap_ms=1
    )
    budget = Budget(world, group_commit=False)
    ambush = Ambush(Arena(world, swarm, stream(1, "aims"), budget))
    ambush.start()
    world.start_all()
    world.run_for(3_000)
    assert sum(not host.powered for host in world.hosts.values()) == 1
    assert any("world does not allow it" in line for line in world.lines)


def test_nothing_is_struck_when_all_has_ended():
    world = World(1)
    ambush = lying_in_wait(world, Aim.STARTED, FaultKind.KILL)
    ambush._arena.end_all()
    world.start_all()
    world.run_for(2_000)
    assert not ambush.struck and len(world.nodes) == len(world.hosts)


def test_all_kinds_can_be_aimed_and_all_aims_are_drawn():
    swarms = [swarm_of("aimed", seed) for seed in LONG]
    assert {kind for swarm in swarms for kind in swarm.aimed_faults} == {*STRIKES}
    assert {aim for swarm in swarms for aim in swarm.aims} == {*Aim}
    for swarm in swarms:
        assert swarm.aims and swarm.aimed_faults
        assert swarm.group_commit or FaultKind.POWER_CUT_ALL not in swarm.aimed_faults
        assert swarm.disks > 1 or DiskFault.DISK_DIES not in swarm.aimed_faults
        if swarm.damages and FaultKind.POWER_CUT in swarm.aimed_faults:
            assert swarm.damaged_files == ("data",)


def test_no_other_seed_is_aimed_at():
    """Goal: what seeds were before there were aimed faults they are still."""
    for scenario in names():
        if scenario not in ("aimed", "aimed-swaps", "data-loss"):
            assert not any(swarm_of(scenario, seed).aims for seed in range(5)), scenario
    assert not any(draw(seed).aims for seed in range(200))


def test_the_same_seed_is_the_same_run_at_every_level_of_the_trace():
    runs = [
        ClusterRun(14, swarm_of("aimed", 14), trace_level=each)
        for each in (Level.INFO, Level.DEBUG)
    ]
    first, second = (run.run() for run in runs)
    assert first.trace_hash == second.trace_hash and first.violation is None
    assert any(kind.startswith("behind") for kind in first.fired)


def test_a_former_log_that_goes_too_early_is_missed():
    """Goal: a power cut between the new name of a copy and its flush. Random power cuts miss it."""
    safeguard = next(one for one in SAFEGUARDS if one.name == "former-logs-stay")
    # What the copy lacks was committed, or the copy is not there.
    assert ablate(safeguard, range(1, 11)).violated in ("CommittedIsDurable", "NoFalseLoss")

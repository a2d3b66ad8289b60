"""Families of faults, each alone and dense: what they change in the world is undone at the end.

That each kind strikes and matters is asserted over many seeds, in `test_seeds.py`.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tidelog.sim.engine.world import World
from tidelog.sim.faults import disks, links, processes
from tidelog.sim.faults.arena import Arena, Lasting
from tidelog.sim.faults.budget import Budget
from tidelog.sim.faults.nemesis import Nemesis
from tidelog.sim.runs.cluster import ClusterRun
from tidelog.sim.scenarios.fault_kinds import DiskFault, FaultKind
from tidelog.sim.scenarios.swarm import draw_plain, stream


def arena(world: World) -> Arena:
    return Arena(world, draw_plain(1), stream(1, "faults"), Budget(world, group_commit=True))


def lasts(lasting: Lasting, ended: list[str]) -> Iterator[Lasting]:
    yield lasting
    ended.append(lasting.name)


@pytest.mark.parametrize("family", [links, processes])
def test_a_family_of_faults_leaves_nothing_behind(family):
    swarm = replace(
        draw_plain(1),
        profile="test",
        group_commit=True,
        faults=tuple(family.STRIKES),
        fault_gap_ms=60,
        fault_length_ms=800,
        fault_phase_ms=3_000,
        records_per_second=20,
        producers=("idempotent",),
    )
    run = ClusterRun(7, swarm)
    outcome = run.run()
    assert outcome.violation is None
    assert len(outcome.faults) > len(swarm.faults) // 2
    assert all(outcome.fired[kind] <= count for kind, count in outcome.faults.items())
    network = run.world.network
    assert not (network.cuts or network.stalled or network.traps)
    assert not (network.dribbles or network.clots or network.delays)
    assert all(host.clock_rate == 1000 and host.running for host in run.world.hosts.values())


def test_a_lasting_fault_fires_when_its_probe_moved_and_ends_once():
    world = World(1)
    one = arena(world)
    ended: list[str] = []
    seen = [0]
    for kind, moves in ((FaultKind.CUT, True), (FaultKind.FLAP, False)):
        seen[0] = 0
        lasting = Lasting(kind.value, lambda: seen[0], length_ms=10)
        one.strike(kind, lambda _, lasting=lasting: lasts(lasting, ended))
        seen[0] = int(moves)
        world.run_for(20)
    one.end_all()
    assert ended == ["cut", "flap"]
    assert (dict(one.counts), dict(one.fired)) == ({"cut": 1, "flap": 1}, {"cut": 1})


def test_healing_ends_what_still_lasts():
    world = World(1)
    one = arena(world)
    ended: list[str] = []
    one.strike(FaultKind.CUT, lambda _: lasts(Lasting("cut"), ended))
    one.end_all()
    world.run_for(100_000)
    assert (ended, one.stopped, one.fired["cut"]) == (["cut"], True, 1)


def test_with_a_stall_the_flush_ends_that_it_held_up():
    """Seed 74000600 of an older version: a flush went on for 20 s after the disk was well again,
    and the voter that waited for it was silent while everything was to heal."""
    world = World(1)
    world.start_all()
    one = arena(world)
    one.strike(DiskFault.STALL, disks.DEVICE_STRIKES[DiskFault.STALL])
    (host,) = (each for each in world.hosts.values() if each.flush_ms[1] >= 1_000)
    host.flush_ms = (20_000, 20_000)
    world.run_until(lambda: host.flushing is not None and host.disk_queue)
    held_up = host.flushing
    world.run_for(200)
    assert host.flushing is held_up
    one.end_all()
    world.run_for(host.flush_ms[1] + 1)
    assert host.flushing is not held_up


def test_what_a_process_met_on_its_disk_ends_with_it():
    world = World(1)
    world.start_all()
    budget = Budget(world, group_commit=True)
    nemesis = Nemesis(world, draw_plain(1), stream(1, "faults"), budget)
    disk = world.hosts[1].disk
    disk.hurt = True
    # The device is not well, and has refused nothing to the next process.
    disk.capacity_bytes = 1 << 30
    world.kill(1)
    nemesis.heal()
    assert world.hosts[1].node is not None
    assert not disk.hurt

"""A start that loads its logs one a turn: the quorum has its voter meanwhile, the cluster gets its
broker when all are loaded, and an end at any moment loses nothing."""

from dataclasses import replace

import pytest
from tests.sim.test_cluster import all_know, partition, read_all, unfenced

from tidelog.config import NodeConfig
from tidelog.errors import ErrorCode
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.world import World

PARTITIONS = 12


def _one_step_a_turn(config: NodeConfig) -> NodeConfig:
    return replace(config, replication=replace(config.replication, metadata_work_per_turn=1))


def _world_with_records() -> tuple[World, int]:
    """Three nodes with a topic; and one of them that has just stopped being its leader."""
    world = World(7, tweak=_one_step_a_turn)
    world.start_all()
    world.run_until(lambda: unfenced(world) == {1, 2, 3}, 10_000)
    client = SimClient(world, 1)
    assert client.create_topic("t", PARTITIONS, min_insync_replicas="2") == ErrorCode.NONE
    world.run_until(lambda: all_know(world, "t"))
    world.run_for(300)
    leader = partition(world, "t").leader
    answer = SimClient(world, leader).produce("t", 0, [b"kept"])
    assert answer.partitions[0].error_code == ErrorCode.NONE
    return world, leader


def _is_loading(host: Host) -> bool:
    return host.node is not None and not host.node._directory.is_loaded


@pytest.mark.parametrize("ending", ["stop", "kill", "power"])
@pytest.mark.parametrize("second", [None, "stop", "kill", "power"])
def test_a_start_is_a_voter_first_and_a_broker_when_all_is_loaded(
    ending: str, second: str | None
) -> None:
    """Goal: with or without an end in the middle of the start, the record is there, and the node
    was no broker while logs were missing."""
    world, victim = _world_with_records()
    host = world.hosts[victim]
    ends = {"stop": world.stop, "kill": world.kill, "power": world.power_cut}
    ends[ending](victim)
    world.run_until(lambda: host.node is None)
    world.run_until(lambda: victim not in unfenced(world))
    early: list[bool] = []

    def watch(name: str, event: object) -> None:
        if name == host.name and type(event).__name__ == "BrokerRegistered":
            early.append(_is_loading(host))

    world.watchers.append(watch)
    world.start(victim)
    assert _is_loading(host) and len(host.node._directory.logs) == 1
    if second is not None:
        ends[second](victim)
        world.run_until(lambda: host.node is None)
        world.start(victim)
    world.run_until(lambda: unfenced(world) == {1, 2, 3}, 20_000)
    world.run_until(lambda: len(partition(world, "t").isr) == 3, 20_000)
    assert early == [False]
    reader = SimClient(world, partition(world, "t").leader)
    assert read_all(world, reader) == [b"kept"]
    for each in world.nodes:
        each.check()

"""A start that loads its logs one a turn: the quorum has its voter meanwhile, the cluster gets its
broker when all are loaded, and an end at any moment loses nothing."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.sim.test_cluster import all_know, partition, read_all, unfenced

from tidelog.config import NodeConfig
from tidelog.errors import ErrorCode
from tidelog.limits import MAX_TURN_MS
from tidelog.model import TopicPartition
from tidelog.replication.partition import Partition
from tidelog.sim.checkers.turns import BoundedTurn
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.work import Hardware
from tidelog.sim.engine.world import World

PARTITIONS = 12
SEGMENTS = 150


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
    return host.node is not None and not host.node._directories.is_loaded


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
    assert _is_loading(host) and len(host.node._directories.logs) == 1
    if second is not None:
        ends[second](victim)
        world.run_until(lambda: host.node is None)
        world.start(victim)
    world.run_until(lambda: unfenced(world) == {1, 2, 3}, 20_000)
    world.run_until(lambda: len(partition(world, "t").isr) == 3, 20_000)
    assert early == [False]
    # The third node's next fetch, which commits the record again, may be half a second away.
    world.run_for(600)
    reader = SimClient(world, partition(world, "t").leader)
    assert read_all(world, reader) == [b"kept"]
    for each in world.nodes:
        each.check()


def _hosted_by_first(world: World) -> Mapping[TopicPartition, Partition]:
    node = world.hosts[1].node
    assert node is not None, "it runs"
    return node.broker.replicas.partitions


def test_one_log_that_has_to_be_walked_is_loaded_in_many_turns() -> None:
    """Goal: hundreds of segments of one partition, none of which a checkpoint covers, keep no turn
    of the start for longer than any other work may."""
    world = World(
        7, nodes=1, tweak=lambda config: replace(config, log=replace(config.log, segment_bytes=999))
    )
    world.driver.check_every = 100
    world.set_hardware(Hardware())
    world.start_all()
    world.run_until(lambda: unfenced(world) == {1}, 10_000)
    client = SimClient(world, 1)
    # The process begins with these, before it has turns.
    assert client.create_topic("before", 20, 1) == ErrorCode.NONE
    assert client.create_topic("t", 1, 1) == ErrorCode.NONE
    world.run_until(lambda: len(_hosted_by_first(world)) == 21)
    values = [b"%3d" % number + bytes(900) for number in range(SEGMENTS)]
    for value in values:
        assert client.produce("t", 0, [value]).partitions[0].error_code == ErrorCode.NONE
    world.kill(1)
    disk = world.hosts[1].disk
    disk.replace("recovery-point-offset-checkpoint", b"0\n0\n")
    for name in disk.list_dir("t-0"):
        if name.endswith("index"):
            disk.delete(f"t-0/{name}")
    turns = BoundedTurn(world)
    world.start(1)
    world.run_until(lambda: len(_hosted_by_first(world)) == 21, 20_000)
    world.run_for(500)
    assert read_all(world, SimClient(world, 1)) == values
    assert 0 < turns.longest_us < MAX_TURN_MS * 1000

"""Partitions that move to other brokers while they are written."""

import pytest
from tests.sim.test_cluster import all_know, partition, read_all, unfenced

from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.world import World
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, millis

T0 = TopicPartition("t", 0)


def reassign(client: SimClient, replicas: tuple[int, ...] | None) -> ErrorCode:
    """Asks for another home of `t-0`, or cancels."""
    key = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    wish = {"partition_index": 0, "replicas": replicas}
    response = client.call(
        key,
        1,
        timeout=millis(30_000),
        allow_replication_factor_change=True,
        topics=({"name": "t", "partitions": (wish,)},),
    )
    assert error_of(response.error_code) is ErrorCode.NONE
    return error_of(response.responses[0].partitions[0].error_code)


def on_the_move(client: SimClient) -> list[tuple[tuple[int, ...], ...]]:
    """Replicas, newcomers and leavers of what is being moved."""
    key = ApiKey.LIST_PARTITION_REASSIGNMENTS
    response = client.call(key, 0, timeout=millis(30_000), topics=None)
    return [
        (tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas))
        for topic in response.topics
        for p in topic.partitions
    ]


class Load:
    """A producer with acks=all that follows the leader and tries again until it is answered."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.acknowledged: list[bytes] = []
        self.client = SimClient(world, partition(world, "t").leader)

    def produce(self, count: int) -> None:
        for _ in range(count):
            value = b"v%d" % len(self.acknowledged)
            while True:
                answer = self.client.produce("t", 0, [value])
                if answer.partitions[0].error_code == ErrorCode.NONE:
                    break
                self.world.run_for(50)
                self.client = SimClient(self.world, partition(self.world, "t").leader)
            self.acknowledged.append(value)


def four_nodes(seed: int, factor: int = 3) -> tuple[World, Load]:
    world = World(seed, nodes=4)
    world.start_all()
    world.run_until(lambda: unfenced(world) == {1, 2, 3, 4}, 10_000)
    assert SimClient(world, 1).create_topic("t", replication_factor=factor) == ErrorCode.NONE
    world.run_until(lambda: all_know(world, "t"))
    world.run_for(200)
    return world, Load(world)


def hosted(world: World) -> set[int]:
    """The nodes that have a log of `t-0`."""
    return {i for i, host in world.hosts.items() if T0 in host.node._directories.logs}


def once(values: list[bytes]) -> list[bytes]:
    """Without repetitions: a send that is repeated after a lost leader may have arrived before."""
    return list(dict.fromkeys(values))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_partition_moves_under_load_to_all_other_brokers_and_loses_nothing(seed):
    world, load = four_nodes(seed, factor=2)
    load.produce(30)
    origin = partition(world, "t").replicas
    target = tuple(node_id for node_id in (1, 2, 3, 4) if node_id not in origin)
    assert reassign(SimClient(world, 1), target) is ErrorCode.NONE
    load.produce(30)
    world.run_until(lambda: partition(world, "t").replicas == target)
    assert set(partition(world, "t").isr) == set(target)
    assert partition(world, "t").leader in target
    load.produce(30)
    world.run_until(lambda: hosted(world) == set(target))
    assert on_the_move(SimClient(world, 1)) == []
    assert once(read_all(world, load.client)) == load.acknowledged


def test_it_waits_for_a_newcomer_that_is_away_and_goes_back_when_cancelled():
    world, load = four_nodes(5)
    load.produce(20)
    origin = partition(world, "t").replicas
    newcomer = next(node_id for node_id in (1, 2, 3, 4) if node_id not in origin)
    world.kill(newcomer)
    world.run_until(lambda: newcomer not in unfenced(world))
    target = (newcomer, *origin[1:])
    client = SimClient(world, origin[1])
    assert reassign(client, target) is ErrorCode.NONE
    load.produce(20)
    assert on_the_move(client) == [((*target, origin[0]), (newcomer,), (origin[0],))]
    assert partition(world, "t").leader == origin[0]
    assert reassign(client, None) is ErrorCode.NONE
    assert reassign(client, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    world.run_until(lambda: set(partition(world, "t").replicas) == set(origin))
    world.start(newcomer)
    world.run_until(lambda: newcomer in unfenced(world))
    load.produce(20)
    assert hosted(world) == set(origin)
    assert once(read_all(world, load.client)) == load.acknowledged


def test_a_factor_grows_and_shrinks():
    world, load = four_nodes(7, factor=1)
    load.produce(10)
    home = partition(world, "t").replicas[0]
    assert reassign(SimClient(world, home), (1, 2, 3, 4)) is ErrorCode.NONE
    world.run_until(lambda: set(partition(world, "t").isr) == {1, 2, 3, 4})
    load.produce(10)
    others = tuple(node_id for node_id in (1, 2, 3, 4) if node_id != home)
    assert reassign(SimClient(world, home), others[:1]) is ErrorCode.NONE
    world.run_until(lambda: partition(world, "t").replicas == others[:1])
    load.produce(10)
    world.run_until(lambda: hosted(world) == {others[0]})
    assert once(read_all(world, load.client)) == load.acknowledged

"""Three whole nodes in virtual time: the main paths, from an election to a restart of everything.

Every event is followed by `Node.check()`, so these tests also assert each component's invariants.
"""

import pytest

from tidelog.errors import ErrorCode
from tidelog.records.batch import decode_batch
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.world import World


def running_world(seed: int = 1, **settings: str) -> World:
    """Three nodes, all unfenced."""
    world = World(seed, settings={key.replace("_", "."): value for key, value in settings.items()})
    world.start_all()
    world.run_until(lambda: unfenced(world) == {1, 2, 3}, 10_000)
    return world


def unfenced(world: World) -> set[int]:
    """The brokers that every running node sees unfenced."""
    views = [
        {node_id for node_id, broker in host.node.broker.image.brokers.items() if broker.active}
        for host in world.hosts.values()
        if host.node is not None
    ]
    return set.intersection(*views) if views else set()


def partition(world: World, topic: str, index: int = 0):
    """The newest image of a partition among the running nodes."""
    images = [
        host.node.broker.image
        for host in world.hosts.values()
        if host.node is not None and topic in host.node.broker.image.topics_by_name
    ]
    newest = max(images, key=lambda image: image.offset, default=None)
    return None if newest is None else newest.topics_by_name[topic].partitions[index]


def led_world(seed: int = 1, **settings: str) -> tuple[World, SimClient, int]:
    """A running world with topic `t`, RF 3, and a client of its leader."""
    world = running_world(seed, **settings)
    assert SimClient(world, 1).create_topic("t") == ErrorCode.NONE
    world.run_until(lambda: all_know(world, "t"))
    leader = partition(world, "t").leader
    return world, SimClient(world, leader), leader


def all_know(world: World, topic: str) -> bool:
    """Whether every running node has the topic in its image."""
    return all(
        topic in host.node.broker.image.topics_by_name
        for host in world.hosts.values()
        if host.node is not None
    )


def values_of(response) -> list[bytes]:
    """The record values of a fetch response."""
    data = b"".join(bytes(chunk) for chunk in response.partitions[0].records)
    values, position = [], 0
    while position < len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        values += [record.value for record in decode_batch(data[position : position + size])]
        position += size
    return values


def read_all(world: World, client: SimClient, topic: str = "t") -> list[bytes]:
    """Everything a consumer can read from offset 0."""
    values: list[bytes] = []
    offset = 0
    while True:
        response = client.fetch(topic, 0, offset)
        assert response.partitions[0].error_code == ErrorCode.NONE
        found = values_of(response)
        if not found:
            return values
        values += found
        offset += len(found)


@pytest.mark.parametrize("seed", range(1, 6))
def test_three_nodes_are_unfenced_within_a_second_of_virtual_time(seed):
    world = World(seed)
    world.start_all()
    world.run_until(lambda: unfenced(world) == {1, 2, 3}, 1_000)


def test_leaders_count_partitions_whose_isr_is_smaller_than_their_replicas():
    """While a follower is down and has left the ISR, and no longer."""
    world, _, leader = led_world()
    down = next(node_id for node_id in world.hosts if node_id != leader)

    def counted() -> dict[int, int]:
        nodes = {node_id: host.node for node_id, host in world.hosts.items()}
        return {node_id: node.under_replicated for node_id, node in nodes.items() if node}

    assert set(counted().values()) == {0}
    world.kill(down)
    world.run_until(lambda: counted()[leader] == 1)
    assert sum(counted().values()) == 1
    world.start(down)
    world.run_until(lambda: set(counted().values()) == {0} and len(counted()) == 3)


def test_an_acknowledged_record_is_read_back():
    world, client, _ = led_world()
    produced = client.produce("t", 0, [b"a", b"b"])
    assert produced.partitions[0].error_code == ErrorCode.NONE
    assert produced.partitions[0].base_offset == 0
    assert read_all(world, client) == [b"a", b"b"]


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_killed_leader_is_replaced_within_the_grace_and_nothing_acknowledged_is_lost(seed):
    world, client, leader = led_world(seed)
    acknowledged = [b"v%d" % index for index in range(20)]
    for value in acknowledged:
        assert client.produce("t", 0, [value]).partitions[0].error_code == ErrorCode.NONE
    world.kill(leader)
    world.run_until(lambda: partition(world, "t").leader not in (leader, -1), 1_200)
    successor = SimClient(world, partition(world, "t").leader)
    world.run_for(100)
    assert successor.produce("t", 0, [b"after"]).partitions[0].error_code == ErrorCode.NONE
    assert read_all(world, successor) == [*acknowledged, b"after"]


def test_a_killed_node_returns_to_the_isr():
    world, client, leader = led_world()
    victim = next(node_id for node_id in (1, 2, 3) if node_id != leader)
    world.kill(victim)
    world.run_until(lambda: victim not in partition(world, "t").isr)
    for index in range(10):
        assert client.produce("t", 0, [b"%d" % index]).partitions[0].error_code == 0
    world.start(victim)
    world.run_until(lambda: set(partition(world, "t").isr) == {1, 2, 3})
    world.run_for(1_000)
    log = world.hosts[victim].node._directories.logs[("t", 0)]
    assert log.log_end_offset == 10


def test_below_min_isr_acks_all_is_refused_and_nothing_is_visible():
    world, client, leader = led_world()
    for node_id in (1, 2, 3):
        if node_id != leader:
            world.pause(node_id)
    # The paused nodes hold the quorum's majority, so the ISR cannot shrink and the leader can
    # only wait: nothing is acknowledged.
    client.send_produce("t", 0, [b"x"])
    world.run_for(5_000)
    assert read_all(world, SimClient(world, leader)) == []
    for node_id in (1, 2, 3):
        if node_id != leader:
            world.resume(node_id)
    assert client.take_produced().partitions[0].error_code in (0, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_all_data_is_back_after_a_clean_restart_of_everything():
    world, client, _ = led_world()
    values = [b"v%d" % index for index in range(50)]
    for value in values:
        client.produce("t", 0, [value])
    for node_id in (1, 2, 3):
        world.stop(node_id)
    world.run_until(lambda: all(host.node is None for host in world.hosts.values()), 30_000)
    assert [host.exit_code for host in world.hosts.values()] == [0, 0, 0]
    world.start_all()
    world.run_until(lambda: unfenced(world) == {1, 2, 3}, 30_000)
    world.run_until(lambda: partition(world, "t").leader > 0)
    world.run_for(2_000)
    assert read_all(world, SimClient(world, partition(world, "t").leader)) == values


def test_all_data_is_back_after_everything_was_killed():
    world, client, _ = led_world()
    values = [b"v%d" % index for index in range(50)]
    for value in values:
        client.produce("t", 0, [value])
    for node_id in (1, 2, 3):
        world.kill(node_id)
    world.start_all()
    world.run_until(lambda: unfenced(world) == {1, 2, 3}, 30_000)
    world.run_until(lambda: partition(world, "t").leader > 0)
    world.run_for(2_000)
    assert read_all(world, SimClient(world, partition(world, "t").leader)) == values


def test_the_same_seed_gives_the_same_trace():
    def lines(seed: int) -> list[str]:
        world, client, leader = led_world(seed)
        client.produce("t", 0, [b"x"])
        world.kill(leader)
        world.run_for(2_000)
        return world.lines

    assert lines(7) == lines(7)
    assert lines(7) != lines(8)

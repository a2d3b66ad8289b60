"""Leaders that move because an operator wants it, in a whole cluster."""

import pytest
from tests.sim.test_cluster import all_know, led_world, partition, read_all, unfenced

from tidelog.config import profile_settings
from tidelog.errors import ErrorCode
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.world import World
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, millis


def elect(client: SimClient, kind: int, *numbers: int) -> ErrorCode:
    """Asks a broker, whichever it is, for an election in `t`; the code of the first partition."""
    response = client.call(
        ApiKey.ELECT_LEADERS,
        2,
        election_type=kind,
        topic_partitions=({"topic": "t", "partitions": numbers},),
        timeout=millis(30_000),
    )
    assert error_of(response.error_code) is ErrorCode.NONE
    return error_of(response.replica_election_results[0].partition_result[0].error_code)


def test_a_preferred_election_through_any_broker_moves_the_leader_and_loses_nothing():
    world, client, preferred = led_world()
    for value in (b"a", b"b"):
        assert client.produce("t", 0, [value]).partitions[0].error_code == ErrorCode.NONE
    world.kill(preferred)
    world.run_until(lambda: partition(world, "t").leader not in (preferred, -1))
    successor = partition(world, "t").leader
    world.run_for(200)
    client = SimClient(world, successor)
    assert client.produce("t", 0, [b"c"]).partitions[0].error_code == ErrorCode.NONE
    assert elect(client, 0, 0) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    world.start(preferred)
    world.run_until(lambda: set(partition(world, "t").isr) == {1, 2, 3})
    assert partition(world, "t").leader == successor
    third = next(node_id for node_id in (1, 2, 3) if node_id not in (preferred, successor))
    assert elect(SimClient(world, third), 0, 0) is ErrorCode.NONE
    world.run_until(lambda: partition(world, "t").leader == preferred)
    assert elect(SimClient(world, third), 0, 0) is ErrorCode.ELECTION_NOT_NEEDED
    world.run_for(1_000)
    client = SimClient(world, preferred)
    assert client.produce("t", 0, [b"d"]).partitions[0].error_code == ErrorCode.NONE
    assert read_all(world, client) == [b"a", b"b", b"c", b"d"]


def allow_unclean(client: SimClient) -> ErrorCode:
    """Topic `t` would rather lose records than wait."""
    name = "unclean.leader.election.enable"
    config = {"name": name, "config_operation": 0, "value": "true"}
    resource = {"resource_type": 2, "resource_name": "t", "configs": (config,)}
    response = client.call(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=(resource,), validate_only=False
    )
    return error_of(response.responses[0].error_code)


def stranded_world():
    """A topic with two replicas that lives on only one of them, which is dead: the other is back
    and lacks an acknowledged record."""
    settings = {"min.insync.replicas": "1", "default.replication.factor": "2"}
    world = World(3, nodes=5, settings=settings)
    world.start_all()
    world.run_until(lambda: unfenced(world) == {1, 2, 3, 4, 5}, 10_000)
    assert SimClient(world, 1).create_topic("t", replication_factor=2) == ErrorCode.NONE
    world.run_until(lambda: all_know(world, "t"))
    first, second = partition(world, "t").replicas
    world.kill(second)
    world.run_until(lambda: partition(world, "t").isr == (first,))
    client = SimClient(world, first)
    assert client.produce("t", 0, [b"lost"]).partitions[0].error_code == ErrorCode.NONE
    world.kill(first)
    world.run_until(lambda: partition(world, "t").leader == -1)
    world.start(second)
    world.run_until(lambda: unfenced(world) == {1, 2, 3, 4, 5} - {first})
    return world, first, second


def test_allowing_an_unclean_election_trades_records_for_a_leader_and_says_so():
    world, first, second = stranded_world()
    world.run_for(5_000)
    assert partition(world, "t").leader == -1
    client = SimClient(world, second)
    assert allow_unclean(client) is ErrorCode.NONE
    world.run_until(lambda: partition(world, "t").leader == second)
    assert partition(world, "t").recovering
    world.run_for(200)
    assert client.produce("t", 0, [b"kept"]).partitions[0].error_code == ErrorCode.NONE
    assert any("gave up records" in line and "t-0 change_partition" in line for line in world.lines)
    world.start(first)
    world.run_until(lambda: set(partition(world, "t").isr) == {first, second})
    assert not partition(world, "t").recovering
    assert read_all(world, client) == [b"kept"]


def test_an_unclean_election_by_hand_is_for_partitions_without_a_leader():
    world, _, second = stranded_world()
    client = SimClient(world, second)
    assert elect(client, 0, 0) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert elect(client, 1, 0) is ErrorCode.NONE
    world.run_until(lambda: partition(world, "t").leader == second)
    assert elect(client, 1, 0) is ErrorCode.ELECTION_NOT_NEEDED


@pytest.mark.parametrize("arrives", ["before", "after"])
def test_a_registration_that_comes_late_makes_no_clean_stop_unclean(arrives):
    """Goal: who stops cleanly before its registration was answered has ended cleanly, whenever the
    controller reads it, and keeps its place in the ELR.
    Method: a paused controller; a broker registers there, stops, and starts again when that
    registration was carried out, or before."""
    world = World(3, nodes=3, controllers=1, settings=profile_settings("test", 3))
    world.start_all()
    world.run_until(lambda: unfenced(world) == {1, 2, 3}, 10_000)
    host = world.hosts[3]
    world.stop(3)
    world.run_until(lambda: host.node is None)
    world.pause(4)
    world.start(3)
    world.run_for(200)
    world.stop(3)
    world.run_until(lambda: host.node is None)
    if arrives == "before":
        world.resume(4)
        world.run_for(500)
    world.start(3)
    world.run_for(200)
    if arrives == "after":
        world.resume(4)
    world.run_until(lambda: unfenced(world) == {1, 2, 3}, 10_000)
    registered = [line for line in world.lines if "broker 3 decide_registration" in line]
    # To the controller the last start is the same process, and its registration changes nothing.
    assert len(registered) == 2, registered
    assert len({line.split("incarnation=")[1].split()[0] for line in registered}) == 2

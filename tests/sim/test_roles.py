"""Controllers and brokers as nodes of their own, in virtual time.

Goal: a broker that is not a voter finds the quorum, follows its log and serves clients, and the
loss of a controller or of a broker is noticed and survived, as where every node is both.
"""

import pytest
from tests.served import BROKER_APIS, CONTROLLER_APIS
from tests.sim.test_cluster import all_know, partition, values_of

from tidelog.errors import ErrorCode
from tidelog.kraft.quorum_state import RoleName
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.world import World
from tidelog.wire.api import ApiKey

BROKERS = (1, 2, 3)
CONTROLLERS = (4, 5, 6)


def separated(seed: int = 1, controllers: int = 3, **settings: str) -> World:
    """Three brokers and as many controllers, all brokers unfenced, all controllers registered."""
    given = {key.replace("_", "."): value for key, value in settings.items()}
    world = World(seed, controllers=controllers, settings=given)
    world.start_all()
    world.run_until(lambda: is_complete(world), 10_000)
    return world


def is_complete(world: World) -> bool:
    """Whether everybody who runs sees everybody who runs."""
    running = [host for host in world.hosts.values() if host.node is not None]
    brokers = {host.node_id for host in running if host.config.is_broker}
    controllers = {host.node_id for host in running if host.config.is_controller}
    for host in running:
        image = host.node.broker.image
        unfenced = {node_id for node_id, broker in image.brokers.items() if broker.active}
        if unfenced != brokers or not controllers <= set(image.controllers):
            return False
    return True


def create(world: World, topic: str) -> None:
    """A topic with three replicas that everybody knows."""
    assert SimClient(world, 1).create_topic(topic) == ErrorCode.NONE
    world.run_until(lambda: all_know(world, topic))


def active_controller(world: World) -> int | None:
    """The node that leads the quorum."""
    for node_id, host in world.hosts.items():
        if host.node is not None and host.node.broker.quorum.is_leader:
            return node_id
    return None


@pytest.mark.parametrize("controllers", [1, 3, 5])
def test_brokers_alone_observe_and_controllers_alone_vote(controllers: int) -> None:
    world = separated(controllers, controllers)
    roles = {node_id: host.node.broker.quorum.role.name for node_id, host in world.hosts.items()}
    assert [roles.pop(node_id) for node_id in BROKERS] == [RoleName.FOLLOWER] * 3
    assert sorted(role.value for role in roles.values()) == sorted(
        ["leader"] + ["follower"] * (controllers - 1)
    )
    image = world.hosts[1].node.broker.image
    assert sorted(image.controllers) == list(range(4, 4 + controllers))
    assert [e.port for e in image.controllers[4].endpoints] == [9093]


@pytest.mark.parametrize("nodes", [1, 5])
def test_one_node_and_five_nodes_that_are_both(nodes: int) -> None:
    world = World(1, nodes=nodes)
    world.start_all()
    world.run_until(lambda: is_complete(world), 10_000)
    client = SimClient(world, nodes)
    assert client.create_topic("t", replication_factor=min(nodes, 3)) == ErrorCode.NONE
    leader = SimClient(world, partition(world, "t").leader)
    # A leader that has not read the metadata yet is asked again, as a client does.
    world.run_until(
        lambda: leader.produce("t", 0, [b"a"]).partitions[0].error_code is ErrorCode.NONE, 1_000
    )


def test_each_listener_lists_what_it_serves() -> None:
    world = separated()
    on_broker = SimClient(world, 1)
    on_controller = SimClient(world, 4, listener="CONTROLLER")
    name = {"client_software_name": "test", "client_software_version": "1"}
    for client, apis in ((on_broker, BROKER_APIS), (on_controller, CONTROLLER_APIS)):
        answer = client.call(ApiKey.API_VERSIONS, 3, **name)
        assert [api.api_key for api in answer.api_keys] == sorted(int(key) for key in apis)


def test_a_controller_alone_describes_controllers_and_decides() -> None:
    world = separated()
    leader = active_controller(world)
    assert leader in CONTROLLERS
    client = SimClient(world, leader, listener="CONTROLLER")
    answer = client.call(
        ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=False, endpoint_type=2
    )
    assert sorted(node.broker_id for node in answer.brokers) == list(CONTROLLERS)
    assert answer.controller_id == leader
    assert client.create_topic("direct") == ErrorCode.NONE


def test_the_death_of_the_active_controller_costs_no_write() -> None:
    world = separated(7)
    create(world, "t")
    led_by = partition(world, "t").leader
    client = SimClient(world, led_by)
    assert client.produce("t", 0, [b"before"]).partitions[0].error_code is ErrorCode.NONE
    old = active_controller(world)
    world.kill(old)
    assert client.produce("t", 0, [b"after"]).partitions[0].error_code is ErrorCode.NONE
    world.run_until(lambda: active_controller(world) not in (None, old), 1_499)
    assert SimClient(world, 2).create_topic("u") == ErrorCode.NONE
    assert partition(world, "t").leader == led_by, "brokers lived on, no leader had to change"
    world.start(old)
    world.run_until(lambda: is_complete(world), 10_000)


def test_the_death_of_a_broker_is_noticed_by_the_controllers() -> None:
    world = separated(8)
    create(world, "t")
    victim = partition(world, "t").leader
    written = SimClient(world, victim).produce("t", 0, [b"kept"])
    assert written.partitions[0].error_code is ErrorCode.NONE
    world.kill(victim)
    # Sooner than a session expires: the closed sockets were noticed.
    world.run_until(lambda: partition(world, "t").leader not in (-1, victim), 1_499)
    heir = SimClient(world, partition(world, "t").leader)
    world.run_for(1_000)  # The followers come, and the high watermark with them.
    assert values_of(heir.fetch("t", 0, 0)) == [b"kept"]
    world.start(victim)
    world.run_until(lambda: is_complete(world), 10_000)


def test_a_broker_without_any_controller_serves_what_it_has_and_finds_the_next_quorum() -> None:
    world = separated(9)
    create(world, "t")
    client = SimClient(world, partition(world, "t").leader)
    for controller in CONTROLLERS:
        world.kill(controller)
    world.run_for(20_000)
    assert client.produce("t", 0, [b"alone"]).partitions[0].error_code is ErrorCode.NONE
    for controller in CONTROLLERS:
        world.start(controller)
    world.run_until(lambda: is_complete(world), 20_000)
    assert SimClient(world, 2).create_topic("u") == ErrorCode.NONE


def test_controllers_and_brokers_stop_cleanly() -> None:
    world = separated(10)
    for node_id in (*BROKERS, *CONTROLLERS):
        host = world.hosts[node_id]
        world.stop(node_id)
        world.run_until(lambda host=host: host.exit_code is not None, 20_000)
        assert host.exit_code == 0, host.exit_message


def test_everybody_comes_back_after_a_power_cut() -> None:
    world = separated(11)
    create(world, "t")
    for node_id in world.hosts:
        world.power_cut(node_id)
    world.start_all()
    world.run_until(lambda: is_complete(world), 20_000)
    assert partition(world, "t") is not None

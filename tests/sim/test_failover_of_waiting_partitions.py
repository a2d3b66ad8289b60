"""A broker dies that follows hundreds of partitions, and a client writes to one of them."""

from tests.sim.test_cluster import unfenced
from tests.sim.test_failover_between_slices import images, partitions

from tidelog.errors import ErrorCode
from tidelog.limits import MAX_CHANGES_PER_TURN
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.work import Hardware
from tidelog.sim.engine.world import World

PARTITIONS = 12 * MAX_CHANGES_PER_TURN


def test_a_write_that_waits_for_the_dead_follower_is_acknowledged_before_it_is_fenced() -> None:
    """Goal: the leader takes the dead follower out of the ISR that an acks=all request waits for,
    though the controller has hundreds of others before it. Invariants hold at every event."""
    world = World(11, nodes=3)
    world.driver.check_every = 50
    world.set_hardware(Hardware())
    world.start_all()
    world.run_until(lambda: unfenced(world) == {1, 2, 3}, 10_000)
    for topic, count in (("many", PARTITIONS), ("written", 3)):
        assert SimClient(world, 1).create_topic(topic, count) == ErrorCode.NONE
    controller = world.hosts[1].node.broker.quorum.leader_id
    dead, leader = controller % 3 + 1, (controller + 1) % 3 + 1
    replicas = [host.node.broker.replicas for host in world.hosts.values()]
    world.run_until(lambda: not any(one.is_behind for one in replicas), 60_000)
    assert all(len(partitions(image)) == PARTITIONS + 3 for image in images(world))
    written = images(world)[0].topics_by_name["written"].partitions
    number = next(n for n, one in written.items() if one.leader == leader)
    client = SimClient(world, leader)
    assert client.produce("written", number, [b"a"]).partitions[0].error_code is ErrorCode.NONE
    world.kill(dead)
    client.send_produce("written", number, [b"b"])
    assert client.take_produced().partitions[0].error_code is ErrorCode.NONE
    image = world.hosts[leader].node.broker.image
    assert not image.brokers[dead].fenced
    assert sum(dead in one.isr for one in partitions(image)) > 2 * MAX_CHANGES_PER_TURN

"""The controller dies while it takes a dead broker out of thousands of ISRs."""

from tests.sim.test_cluster import unfenced

from tidelog.errors import ErrorCode
from tidelog.limits import MAX_CHANGES_PER_TURN
from tidelog.metadata.image import MetadataImage, PartitionImage
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.world import World

PARTITIONS = 5 * MAX_CHANGES_PER_TURN


def partitions(image: MetadataImage) -> list[PartitionImage]:
    """Those of all topics."""
    return [one for topic in image.topics_by_id.values() for one in topic.partitions.values()]


def images(world: World, *but: int) -> list[MetadataImage]:
    """What each node knows that is not one of these."""
    return [host.node.broker.image for node_id, host in world.hosts.items() if node_id not in but]


def test_the_next_controller_takes_the_broker_out_of_the_other_isrs() -> None:
    """Goal: a failover in the midst leaves a broker that is unfenced, and not in some ISRs; the
    next controller fences it and leads again what it led. Invariants hold at every event."""
    world = World(7, nodes=5)
    world.driver.check_every = 50
    world.start_all()
    world.run_until(lambda: unfenced(world) == {1, 2, 3, 4, 5}, 10_000)
    assert SimClient(world, 1).create_topic("t", PARTITIONS) == ErrorCode.NONE
    world.run_until(lambda: all(len(partitions(image)) == PARTITIONS for image in images(world)))
    world.run_until(lambda: all(len(one.isr) == 3 for one in partitions(images(world)[0])), 120_000)
    controller = world.hosts[1].node.broker.quorum.leader_id
    dead = controller % 5 + 1
    held = sum(dead in one.isr for one in partitions(images(world)[0]))
    assert held > 2 * MAX_CHANGES_PER_TURN

    def has_begun() -> bool:
        left = [sum(dead in one.isr for one in partitions(one)) for one in images(world, dead)]
        return 0 < min(left) < held

    world.kill(dead)
    world.run_until(has_begun)
    assert not any(image.brokers[dead].fenced for image in images(world, dead))
    world.kill(controller)

    def is_done() -> bool:
        found = images(world, dead, controller)
        return all(
            image.brokers[gone].fenced
            and not any(gone in one.isr or one.leader == gone for one in partitions(image))
            for image in found
            for gone in (dead, controller)
        )

    world.run_until(is_done, 30_000)
    for image in images(world, dead, controller):
        alive = [one for one in partitions(image) if not {dead, controller} >= {*one.replicas}]
        assert all(one.leader >= 0 for one in alive)

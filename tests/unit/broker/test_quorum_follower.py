"""Committed metadata is published in slices, and in whole batches."""

from itertools import pairwise

from tidelog.errors import ErrorCode
from tidelog.limits import MAX_RECORDS_PER_TURN
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.world import World

PER_TOPIC = 50


def test_a_node_that_starts_publishes_its_log_in_slices() -> None:
    """Goal: bounded work in a tick, however much is committed, and no batch in two parts."""
    world = World(1, nodes=1, settings={"default.replication.factor": "1"})
    world.start_all()
    world.run_until(lambda: 1 in world.hosts[1].node.broker.image.brokers)
    world.run_until(lambda: world.hosts[1].node.broker.image.brokers[1].active)
    client = SimClient(world, 1)
    topics = [f"t{number}" for number in range(3 * MAX_RECORDS_PER_TURN // PER_TOPIC)]
    for name in topics:
        assert client.create_topic(name, PER_TOPIC, 1) == ErrorCode.NONE
    world.kill(1)
    world.start(1)
    host = world.hosts[1]
    known = [host.node.broker.image.offset]
    complete = [True]

    def all_known() -> bool:
        image = host.node.broker.image
        if image.offset != known[-1]:
            known.append(image.offset)
            sizes = {len(topic.partitions) for topic in image.topics_by_id.values()}
            complete.append(sizes <= {PER_TOPIC})
        return len(image.topics_by_id) == len(topics)

    world.run_until(all_known)
    steps = [after - before for before, after in pairwise(known)]
    assert max(steps) <= MAX_RECORDS_PER_TURN + PER_TOPIC
    assert len(steps) >= 3
    assert all(complete)

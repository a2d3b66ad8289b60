"""A rolling restart of all nodes under load: every request is answered, and none of them fails.

A producer and a consumer, one request after the other, that know no more than is in the
answers. The only thing they may receive besides success is who leads now.
"""

import pytest
from tests.sim.test_cluster import all_know, partition, running_world, unfenced, values_of

from tidelog.errors import ErrorCode
from tidelog.sim.engine.client import Disconnected, SimClient
from tidelog.sim.engine.world import World

MAX_STALL_MS = 250
"""The longest time, of the cluster, from the first attempt of a request to its success."""


class Following:
    """Sends each request to whom it takes for the leader, and again when an answer names
    another."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.clients: dict[int, SimClient] = {}
        self.leader = partition(world, "t").leader
        # What was answered besides success, by name.
        self.errors: set[str] = set()
        self.longest_ms = 0

    def ask(self, request):
        """The answer of the leader."""
        began = self.world.now
        while True:
            answer = self._attempt(request)
            if answer is not None:
                self.longest_ms = max(self.longest_ms, self.world.now - began)
                return answer
            self.leader = partition(self.world, "t").leader
            self.world.run_for(5)

    def _attempt(self, request):
        client = self.clients.get(self.leader)
        if client is None or client.closed:
            # A client notices a closed connection before it sends; that is not a failed request.
            client = self.clients[self.leader] = SimClient(self.world, self.leader)
            try:
                self.world.run_until(lambda: client.session.connected or client.closed)
            except Disconnected:
                return None
            if client.closed:
                return None
        try:
            answer = request(client)
        except Disconnected:
            self.errors.add("connection lost with a request under way")
            return None
        code = answer.partitions[0].error_code
        if code == ErrorCode.NONE:
            return answer
        self.errors.add(ErrorCode(code).name)
        return None


@pytest.mark.parametrize("seed", [1, 2, 7])
def test_no_request_fails_while_every_node_restarts(seed: int) -> None:
    """Also those of the node that is the controller."""
    world = running_world(seed)
    assert SimClient(world, 1).create_topic("t", min_insync_replicas="2") == ErrorCode.NONE
    world.run_until(lambda: all_know(world, "t"))
    load = Following(world)
    sent = read = 0

    def work() -> None:
        nonlocal sent, read
        once = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sent}
        produced = load.ask(lambda client: client.produce("t", 0, [b"v%d" % sent], **once))
        assert produced.partitions[0].base_offset == sent
        sent += 1
        fetched = load.ask(lambda client: client.fetch("t", 0, read))
        for value in values_of(fetched):
            assert value == b"v%d" % read
            read += 1

    for node_id in (1, 2, 3):
        for _ in range(20):
            work()
        world.stop(node_id)
        while world.hosts[node_id].node is not None:
            work()
        assert world.hosts[node_id].exit_code == 0
        for _ in range(20):
            work()
        world.start(node_id)
        while unfenced(world) != {1, 2, 3} or len(partition(world, "t").isr) < 3:
            work()
    assert load.errors <= {"NOT_LEADER_OR_FOLLOWER"}
    assert load.longest_ms <= MAX_STALL_MS
    assert read == sent


def test_a_controller_that_leaves_does_not_wait_for_the_dead():
    """Goal: the resignation reaches every node that lives, and the stop comes to an end.
    Method: one voter is dead when the leader of the quorum is stopped."""
    world = running_world(4)
    leader = world.hosts[1].node.broker.quorum.leader_id
    one, other = (node_id for node_id in (1, 2, 3) if node_id != leader)
    world.kill(one)
    world.run_for(2_000)
    world.stop(leader)
    world.run_until(lambda: world.hosts[leader].node is None, 5_000)
    assert world.hosts[leader].exit_code == 0
    world.start(one)
    world.run_until(lambda: world.hosts[other].node.broker.quorum.is_leader, 5_000)

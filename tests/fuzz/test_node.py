"""Damaged requests against a whole node: it refuses or closes, and serves the others.

Recorded requests of real clients and nodes are damaged and sent to a running node of the simulator,
on broker and controller listeners, each on a connection of its own, while one healthy connection
stays open. After every slice the healthy one is asked again. An exception that leaves the node is a
bug, and `Node.check()` runs throughout.
"""

import pytest

from tests.fuzz.mutations import REQUEST_MUTATIONS, mutated
from tests.wire_corpus import wire_corpus
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.client_machine import BROKER_LISTENER, CONTROLLER_LISTENER, Session
from tidelog.sim.engine.world import World
from tidelog.wire.api import ApiKey

SEED = 4_711
SLICE = 250


def running_node() -> World:
    """One node, unfenced, with a topic."""
    world = World(1, nodes=1, settings={"tidelog.broker.disconnect.grace.ms": "0"})
    world.driver.check_every = 0
    world.start_all()
    image = lambda: world.hosts[1].node.broker.image  # noqa: E731
    world.run_until(lambda: any(broker.active for broker in image().brokers.values()))
    assert SimClient(world, 1).create_topic("plain", 1, 1) == ErrorCode.NONE
    return world


def corpus_of(keys: set[int]) -> list[bytes]:
    """Recorded requests of these APIs."""
    return [exchange.request for exchange in wire_corpus() if exchange.api_key in keys]


class Stranger(Session):
    """Sends one damaged frame, its length prefix honest, and hangs up a little later."""

    def __init__(self, world: World, listener: str, frame: bytes) -> None:
        super().__init__(world.clients, world.hosts[1], listener=listener)
        self._world = world
        self.request(len(frame).to_bytes(4, "big") + frame, lambda _: None, answered=False)

    def on_connected(self) -> None:
        super().on_connected()
        self._world.at(5, self.close)

    def on_bytes(self, data: bytes) -> None:
        """Whatever the answer."""


@pytest.mark.parametrize(
    ("listener", "keys", "cases"),
    [
        (BROKER_LISTENER, {0, 1, 2, 3, 10, 18, 19, 20, 22, 23, 32, 37, 44, 55, 60, 75}, 10_000),
        (CONTROLLER_LISTENER, {1, 18, 52, 53, 54, 55, 56, 58, 60, 62, 63, 64, 67, 70}, 5_000),
    ],
)
def test_a_node_survives_damaged_requests(listener, keys, cases):
    world = running_node()
    healthy = SimClient(world, 1)
    corpus = corpus_of(keys)
    assert len(corpus) > 20
    for case in range(cases):
        prng = Prng(SEED + case)
        frame = mutated(prng, prng.choice(corpus), REQUEST_MUTATIONS)
        Stranger(world, listener, frame)
        try:
            world.run_for(1)
        except BaseException as cause:
            raise AssertionError(f"seed {SEED + case}: {cause!r} from {frame.hex()}") from cause
        if case % SLICE == 0:
            world.run_for(20)
            world.hosts[1].node.check()
            answer = healthy.call(
                ApiKey.API_VERSIONS, 3, client_software_name="t", client_software_version="1"
            )
            assert answer.error_code.value == 0
    world.run_for(1_000)
    assert len(world.hosts[1].node.broker.connections) <= 2

"""Where a consumer is sent to read."""

from dataclasses import replace

import pytest

from tests.unit.replication.test_leader import NOW, World
from tidelog.config import RACK_AWARE_SELECTOR
from tidelog.config.values import LEADER_SELECTOR
from tidelog.env.trace import Trace, TraceList
from tidelog.metadata.image import BrokerImage
from tidelog.model import Endpoint, Uuid
from tidelog.replication.partition import PartitionEnv
from tidelog.replication.read_replica import READ_HERE, ReadReplicaSelector
from tidelog.sim.replicas.cluster import CONFIG

RACKS = {1: "a", 2: "b", 3: "b"}


class Racks(World):
    """Broker 1 in rack a leads; 2 and 3 in rack b have all ten records."""

    def __init__(self, selector_class: str = RACK_AWARE_SELECTOR, **racks: str | None) -> None:
        super().__init__()
        self.fetched(2, 10)
        self.fetched(3, 10)
        images = {node: self.image(node, rack=rack) for node, rack in (RACKS | racks).items()}
        self.brokers._images = images
        self.images = images
        config = replace(CONFIG, replica_selector_class=selector_class)
        env = PartitionEnv(1, config, self.brokers, Trace(TraceList()))
        self.selector = ReadReplicaSelector(env)

    def image(self, node: int, **changes: object) -> BrokerImage:
        """A registered broker."""
        values: dict[str, object] = {
            "node_id": node,
            "broker_epoch": self.epochs[node],
            "incarnation_id": Uuid(bytes(16)),
            "endpoints": (Endpoint("EXTERNAL", f"host{node}", 9092),),
            "rack": RACKS[node],
            "fenced": False,
            "in_controlled_shutdown": False,
            "features": {},
            "log_dirs": (),
            "registration_offset": 0,
        }
        return BrokerImage(**(values | changes))  # type: ignore[arg-type]

    def decide(self, offset: int = 5, rack_id: str = "b", listener: str = "EXTERNAL") -> int:
        """Where a consumer at this offset is sent."""
        return self.selector.decide(self.state, offset, rack_id=rack_id, listener=listener, now=NOW)


def test_a_consumer_reads_in_its_own_rack() -> None:
    """The leader serves those of its own rack, of none, and of one without a replica."""
    world = Racks()
    assert world.decide() == 2
    assert [world.decide(rack_id=rack) for rack in ("a", "", "c")] == [READ_HERE] * 3


@pytest.mark.parametrize("name", ["", LEADER_SELECTOR])
def test_without_the_rack_aware_rule_the_leader_serves(name: str) -> None:
    """Whatever rack the consumer names."""
    world = Racks(name)
    assert not world.selector.by_rack
    assert world.decide() == READ_HERE


def test_the_most_caught_up_is_chosen() -> None:
    """By log end, then by the time it was level last, then the smaller id."""
    world = Racks()
    world.state.remotes[2].last_caught_up = NOW
    world.state.remotes[3].last_caught_up = NOW
    assert world.decide() == 2
    world.state.remotes[3].last_caught_up = NOW + 1  # type: ignore[assignment]
    assert world.decide() == 3
    world.fetched(3, 9)
    assert world.decide() == 2


def test_only_a_replica_that_holds_the_offset_is_chosen() -> None:
    """Its log must neither end below nor start above it; before a fetch nothing is known."""
    world = Racks()
    world.fetched(2, 4)
    world.fetched(3, 6)
    assert [world.decide(offset) for offset in (4, 6, 7)] == [3, 3, READ_HERE]
    world.state.remotes[3].log_start_offset = 5
    assert [world.decide(offset) for offset in (4, 5)] == [2, 3]
    world.state.remotes[2].log_end_offset = -1
    assert world.decide(0) == READ_HERE


def test_only_members_of_the_committed_isr_are_chosen() -> None:
    """A replica outside of it may lag behind for ever (R42)."""
    world = Racks()
    world.state.assign((1, 2, 3), (1, 3))
    assert world.decide() == 3
    world.state.assign((1, 2, 3), (1,))
    assert world.decide() == READ_HERE


def test_only_a_broker_that_can_be_reached_is_chosen() -> None:
    """Unfenced, and with the listener that the consumer uses."""
    world = Racks()
    assert world.decide(listener="INTERNAL") == READ_HERE
    world.images[2] = world.image(2, fenced=True)
    assert world.decide() == 3
    del world.images[3]
    assert world.decide() == READ_HERE

"""The broker's part of a node: what it calls the controller for, and what ends it."""

from tests.unit.broker.one_node import OneNode
from tidelog.broker.broker_side import BrokerSide
from tidelog.env.effects import Exit, FlushFailed, StopRequested
from tidelog.env.instant import Instant
from tidelog.log.values import LogFlush
from tidelog.model import TopicPartition
from tidelog.sim.world import World


def side_of(node: OneNode) -> BrokerSide:
    side: BrokerSide | None = node.node._broker_side
    assert side is not None
    return side


def test_a_failed_log_directory_ends_the_node_with_a_hint() -> None:
    node = OneNode()
    node.client().create_topic("t")
    log = node.node.broker.replicas.partitions[TopicPartition("t", 0)].log
    flush = LogFlush(log.topic_partition, log.topic_id, 0, completes=True, truncation_count=0)
    node.node.receive(FlushFailed(flush, "EIO"), node.now)
    node.node.wake(node.now)
    exits = [effect for effect in node.node.take_effects() if isinstance(effect, Exit)]
    assert [effect.code for effect in exits] == [1]
    assert "hint:" in exits[0].message


def test_the_life_of_the_broker_decides_when_it_wants_to_be_woken() -> None:
    node = OneNode()
    side = side_of(node)
    due = side.deadline()
    assert due is not None
    assert due <= (side.lifecycle.deadline() or Instant(0))
    node.receive(StopRequested())
    node.run_until_exit()
    assert [effect.code for effect in node.exits] == [0]


def test_a_node_that_is_only_a_controller_has_no_broker() -> None:
    world = World(1, nodes=1, controllers=1)
    world.start_all()
    assert world.hosts[2].node._broker_side is None
    assert world.hosts[1].node._broker_side is not None

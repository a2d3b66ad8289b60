"""New logs come in slices, and what becomes of one is decided when it comes to its turn."""

import pytest

from tidelog.limits import MAX_LOGS_CREATED_PER_TURN
from tidelog.model import TopicPartition
from tidelog.sim.replicas.cluster import Broker, Cluster

COUNT = 3 * MAX_LOGS_CREATED_PER_TURN + 1


@pytest.fixture
def cluster() -> Cluster:
    """One broker with a topic that it leads."""
    cluster = Cluster((1,))
    cluster.feed.create_topic("orders", (1,))
    cluster.run(10)
    return cluster


def follow(cluster: Cluster) -> Broker:
    """The broker gets the newest metadata; nothing else happens."""
    broker = cluster.brokers[1]
    cluster.feed.publish(1, broker.replicas, cluster.now)
    return broker


def hosted(broker: Broker, topic: str) -> list[int]:
    """The partitions of a topic that have a log and a role."""
    return [key.partition for key in broker.replicas.partitions if key.topic == topic]


def test_a_turn_makes_a_few_logs_and_wants_the_next_turn_at_once(cluster: Cluster) -> None:
    """Each turn makes as many as the first."""
    cluster.feed.create_topic("wide", (1,), partitions=COUNT)
    broker = follow(cluster)
    for turn in range(1, 4):
        assert hosted(broker, "wide") == list(range(turn * MAX_LOGS_CREATED_PER_TURN))
        deadline = broker.replicas.deadline()
        assert deadline is not None and deadline <= cluster.now
        broker.replicas.wake(cluster.now)
    assert hosted(broker, "wide") == list(range(COUNT))
    deadline = broker.replicas.deadline()
    assert deadline is None or deadline > cluster.now


def test_logs_that_are_here_do_not_wait_for_new_ones(cluster: Cluster) -> None:
    """A change of an existing partition takes effect in the turn that brings it."""
    cluster.feed.create_topic("wide", (1,), partitions=COUNT)
    cluster.feed.change("orders", leader=1)
    broker = follow(cluster)
    assert broker.replicas.partitions[TopicPartition("orders", 0)].leader_epoch == 1


def test_a_topic_that_is_deleted_while_it_is_made_leaves_nothing(cluster: Cluster) -> None:
    """Its logs that were made are deleted, the others never made."""
    cluster.feed.create_topic("wide", (1,), partitions=COUNT)
    broker = follow(cluster)
    cluster.feed.delete_topic("wide")
    follow(cluster)
    cluster.run(10)
    assert hosted(broker, "wide") == []
    assert [key for key in broker.directory.logs if key.topic == "wide"] == []


def test_a_partition_that_moves_away_before_its_turn_is_not_made(cluster: Cluster) -> None:
    """The newest image decides."""
    cluster.feed.create_topic("wide", (1,), partitions=COUNT)
    broker = follow(cluster)
    cluster.feed.change("wide", partition=COUNT - 1, replicas=(2,), isr=(2,), leader=2)
    cluster.run(10)
    assert hosted(broker, "wide") == list(range(COUNT - 1))


def test_a_topic_that_is_created_again_while_it_is_made_has_the_new_id(cluster: Cluster) -> None:
    """No log of the former topic remains."""
    cluster.feed.create_topic("wide", (1,), partitions=COUNT)
    broker = follow(cluster)
    cluster.feed.delete_topic("wide")
    topic_id = cluster.feed.create_topic("wide", (1,), partitions=COUNT)
    cluster.run(10)
    logs = [log for key, log in broker.directory.logs.items() if key.topic == "wide"]
    assert len(logs) == COUNT
    assert {log.topic_id for log in logs} == {topic_id}

"""The hosted replicas are found, changes are looked at once, outputs keep their order."""

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.model import ZERO_TOPIC_ID, TopicPartition
from tidelog.replication.messages import LogDirFailed
from tidelog.replication.partition import Partition
from tidelog.replication.shared import ChangedPartitions, Outbox, Recurring
from tidelog.sim.replicas.cluster import Cluster
from tidelog.sim.replicas.feed import topic_id_of


def test_find() -> None:
    """Here, elsewhere, nowhere, another topic of that name, another epoch."""
    cluster = Cluster((1, 2))
    topic_id = cluster.feed.create_topic("orders", (1,))
    elsewhere_id = cluster.feed.create_topic("elsewhere", (2,))
    cluster.run(0)
    hosted = cluster.brokers[1].replicas._env.hosted
    assert isinstance(hosted.find("orders", 0, topic_id, -1), Partition)
    assert isinstance(hosted.find("orders", 0, ZERO_TOPIC_ID, 0), Partition)
    assert hosted.find("orders", 0, topic_id_of(99), 0) is ErrorCode.INCONSISTENT_TOPIC_ID
    assert hosted.find("orders", 0, topic_id, 1) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert hosted.find("orders", 1, topic_id, -1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert hosted.find("elsewhere", 0, elsewhere_id, -1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert hosted.find("nowhere", 0, topic_id, -1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_marks_are_taken_once() -> None:
    """And forgotten with the replica."""
    cluster = Cluster((1,))
    cluster.feed.create_topic("orders", (1,), partitions=3)
    cluster.run(0)
    first, second, third = cluster.brokers[1].replicas._env.hosted.partitions.values()
    changed = ChangedPartitions()
    changed.mark(second)
    changed.mark(first, log_changed=False)
    changed.mark(second, log_changed=False)
    changed.mark(third)
    changed.forget(third)
    assert changed
    assert list(changed.take()) == [second, first]
    assert not changed
    assert list(changed.take_unflushed()) == [second]
    assert not changed.take() and not changed.take_unflushed()


def test_what_requests_changed_comes_last() -> None:
    """Appends first; a follower's progress asks for no flush."""
    cluster = Cluster((1,))
    cluster.feed.create_topic("orders", (1,), partitions=4)
    cluster.run(0)
    first, second, third, fourth = cluster.brokers[1].replicas._env.hosted.partitions.values()
    changed = ChangedPartitions()
    changed.progressed.update(dict.fromkeys((first, second)))
    changed.appended.update(dict.fromkeys((third, fourth)))
    changed.forget(fourth)
    changed.mark(second)
    assert changed
    assert list(changed.take()) == [second, third, first]
    assert not changed
    assert list(changed.take_unflushed()) == [second, third]


def test_order_and_tokens() -> None:
    """Taken once."""
    outbox = Outbox()
    outputs = [LogDirFailed(TopicPartition("orders", number), "full") for number in range(3)]
    for output in outputs:
        outbox.emit(output)
    assert outbox.take() == outputs
    assert outbox.take() == []
    tokens = [outbox.new_token() for _ in range(3)]
    assert len(set(tokens)) == 3


def test_each_interval_once() -> None:
    """Not before it was started, and without making up for a pause."""
    recurring = Recurring(100)
    assert recurring.due(Instant(10_000)) is None
    recurring.start(Instant(10_000))
    recurring.start(Instant(10_050))
    assert recurring.due_at == 10_100
    assert recurring.due(Instant(10_099)) is None
    assert recurring.due(Instant(10_100)) == 0
    assert recurring.due(Instant(10_730)) == 530
    assert recurring.due(Instant(10_731)) is None
    assert recurring.due_at == 10_830

"""What moved is looked at once, in order."""

from tidelog.replication.moved import Moved
from tidelog.sim.replicas.cluster import Cluster


def test_marks_are_taken_once() -> None:
    """And forgotten with the replica."""
    cluster = Cluster((1,))
    cluster.feed.create_topic("orders", (1,), partitions=3)
    cluster.run(0)
    first, second, third = cluster.brokers[1].replicas._hosted.partitions.values()
    moved = Moved()
    moved.mark(second)
    moved.mark(first, log_changed=False)
    moved.mark(second, log_changed=False)
    moved.mark(third)
    moved.forget(third)
    assert moved
    assert list(moved.take()) == [second, first]
    assert not moved
    assert list(moved.take_unflushed()) == [second]
    assert not moved.take() and not moved.take_unflushed()

"""Changed partitions are looked at once, in order."""

from tidelog.replication.changed_partitions import ChangedPartitions
from tidelog.sim.replicas.cluster import Cluster


def test_marks_are_taken_once() -> None:
    """And forgotten with the replica."""
    cluster = Cluster((1,))
    cluster.feed.create_topic("orders", (1,), partitions=3)
    cluster.run(0)
    first, second, third = cluster.brokers[1].replicas._hosted.partitions.values()
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

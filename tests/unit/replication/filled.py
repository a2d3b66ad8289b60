"""A cluster whose only partition has records in small segments."""

from tidelog.sim.replicas.cluster import Cluster


def orders_on_three(segment_bytes: int, records: int) -> Cluster:
    """Three brokers; `orders-0` has so many committed records, whose values are their offsets."""
    cluster = Cluster()
    cluster.feed.create_topic("orders", (1, 2, 3))
    cluster.feed.configure("orders", "segment.bytes", str(segment_bytes))
    cluster.run(10)
    for number in range(records):
        cluster.produce(1, [b"%d" % number])
        cluster.run(5)
    cluster.run(1000)
    return cluster

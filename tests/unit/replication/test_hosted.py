"""What is answered for partitions that are asked for."""

from tidelog.errors import ErrorCode
from tidelog.model import ZERO_TOPIC_ID
from tidelog.replication.partition import Partition
from tidelog.sim.replicas.cluster import Cluster
from tidelog.sim.replicas.feed import topic_id_of


def test_find() -> None:
    """Here, elsewhere, nowhere, another topic of that name, another epoch."""
    cluster = Cluster((1, 2))
    topic_id = cluster.feed.create_topic("orders", (1,))
    elsewhere_id = cluster.feed.create_topic("elsewhere", (2,))
    cluster.run(0)
    hosted = cluster.brokers[1].replicas._hosted
    assert isinstance(hosted.find("orders", 0, topic_id, -1), Partition)
    assert isinstance(hosted.find("orders", 0, ZERO_TOPIC_ID, 0), Partition)
    assert hosted.find("orders", 0, topic_id_of(99), 0) is ErrorCode.INCONSISTENT_TOPIC_ID
    assert hosted.find("orders", 0, topic_id, 1) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert hosted.find("orders", 1, topic_id, -1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert hosted.find("elsewhere", 0, elsewhere_id, -1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert hosted.find("nowhere", 0, topic_id, -1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

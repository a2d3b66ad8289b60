"""Offsets by time and by special names, and where epochs end."""

import pytest

from tidelog.errors import ErrorCode
from tidelog.replication.messages import EpochEndQuery, ListOffsetsQuery, ListOffsetsResult
from tidelog.sim.replicas.cluster import Cluster


@pytest.fixture
def cluster() -> Cluster:
    """Two brokers; three committed records and one that is not."""
    cluster = Cluster((1, 2))
    cluster.feed.create_topic("orders", (1, 2))
    cluster.run(10)
    cluster.produce(1, [b"a", b"b", b"c"])
    cluster.run(150)
    cluster.held.add((2, 1))
    cluster.run(150)
    cluster.produce(1, [b"d"], acks=1)
    cluster.run(0)
    return cluster


def ask(
    cluster: Cluster, timestamp: int, *, node: int = 1, replica_id: int = -1, epoch: int = -1
) -> ListOffsetsResult:
    """One query."""
    query = ListOffsetsQuery("orders", 0, epoch, timestamp)
    return cluster.brokers[node].replicas.list_offset(
        query, replica_id=replica_id, isolation_level=0
    )


def test_ends_of_the_log(cluster: Cluster) -> None:
    """Clients see the high watermark, replicas the log end."""
    assert ask(cluster, -1)[2:] == (ErrorCode.NONE, -1, 3, 0)
    assert ask(cluster, -1, replica_id=2)[2:] == (ErrorCode.NONE, -1, 4, 0)
    assert ask(cluster, -2)[2:] == (ErrorCode.NONE, -1, 0, 0)
    assert ask(cluster, -4)[2:] == (ErrorCode.NONE, -1, 0, 0)


def test_by_time(cluster: Cluster) -> None:
    """The records carry timestamp 1000; nothing is found after it, or above what is committed."""
    assert ask(cluster, 1000)[2:] == (ErrorCode.NONE, 1000, 0, 0)
    assert ask(cluster, 1001)[2:] == (ErrorCode.NONE, -1, -1, -1)
    assert ask(cluster, -3)[2:] == (ErrorCode.NONE, 1000, 0, 0)
    assert ask(cluster, -7).error_code is ErrorCode.UNSUPPORTED_VERSION


def test_only_the_leader_answers_but_for_debugging(cluster: Cluster) -> None:
    """Replica id -2 may ask any replica."""
    assert ask(cluster, -1, node=2).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ask(cluster, -1, node=2, replica_id=-2)[2:] == (ErrorCode.NONE, -1, 3, 0)


def test_epochs_are_checked(cluster: Cluster) -> None:
    """As in Fetch."""
    cluster.feed.change("orders", leader=1, isr=(1, 2))
    cluster.run(0)
    assert ask(cluster, -2, epoch=0).error_code is ErrorCode.FENCED_LEADER_EPOCH
    assert ask(cluster, -2, epoch=1).error_code is ErrorCode.NONE
    assert ask(cluster, -2, epoch=2).error_code is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_an_unsettled_leader_puts_clients_off(cluster: Cluster) -> None:
    """Until the high watermark has reached the start of its epoch."""
    cluster.feed.change("orders", leader=1, isr=(1, 2))
    cluster.run(0)
    assert ask(cluster, -1).error_code is ErrorCode.OFFSET_NOT_AVAILABLE
    assert ask(cluster, 1000).offset == 0
    assert ask(cluster, 1001).error_code is ErrorCode.NONE
    assert ask(cluster, -2).offset == 0
    assert ask(cluster, -1, replica_id=2).offset == 4


def test_unknown_partitions(cluster: Cluster) -> None:
    """Not here, or nowhere."""
    replicas = cluster.brokers[1].replicas
    queries = [ListOffsetsQuery("orders", 7, -1, -1), ListOffsetsQuery("nothing", 0, -1, -1)]
    for query in queries:
        result = replicas.list_offset(query, replica_id=-1, isolation_level=0)
        assert result.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_where_epochs_end(cluster: Cluster) -> None:
    """The leader answers for epochs that it knows."""
    cluster.feed.change("orders", leader=1, isr=(1, 2))
    cluster.run(0)
    queries = [EpochEndQuery("orders", 0, -1, epoch) for epoch in (0, 1, 2)]
    ends = [cluster.brokers[1].replicas.end_offset_for_epoch(query).end for query in queries]
    assert [*map(tuple, ends)] == [(0, 4), (1, 4), (-1, -1)]
    result = cluster.brokers[2].replicas.end_offset_for_epoch(queries[0])
    assert result.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert tuple(result.end) == (-1, -1)


def test_a_broken_device_goes_offline(cluster: Cluster) -> None:
    """A lookup by time reads the log."""
    cluster.brokers[1].disk.failing = "input/output error"
    assert ask(cluster, 1000).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert ask(cluster, -1).error_code is ErrorCode.KAFKA_STORAGE_ERROR

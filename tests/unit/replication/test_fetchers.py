"""Each partition is fetched from its own leader, by one fetcher."""

import pytest

from tidelog.model import TopicPartition
from tidelog.replication.messages import SendFetch
from tidelog.sim.replicas.cluster import Cluster


def test_a_partition_moves_with_its_leader() -> None:
    """From one fetcher to the other, and to none when there is no leader."""
    cluster = Cluster((1, 2, 3))
    cluster.feed.create_topic("orders", (1, 2, 3), partitions=2)
    cluster.run(0)
    fetchers = cluster.brokers[3].replicas._fetchers
    hosted = cluster.brokers[3].replicas._env.hosted.partitions
    partition = hosted[TopicPartition("orders", 0)]
    assert fetchers._by_partition[partition].followed.leader_id == 1
    cluster.feed.change("orders", leader=2, isr=(2, 3))
    cluster.run(0)
    assert fetchers._by_partition[partition].followed.leader_id == 2
    assert [len(fetchers._by_leader[leader].followed.by_key) for leader in (1, 2)] == [1, 1]
    cluster.feed.change("orders", leader=-1, isr=(2,))
    cluster.run(0)
    assert partition not in fetchers._by_partition
    cluster.feed.change("orders", leader=3, isr=(3,))
    cluster.run(0)
    assert partition not in fetchers._by_partition


def test_an_isr_change_does_not_restart_the_fetcher() -> None:
    """Only a new leader epoch does; each restart would cost a round trip."""
    cluster = Cluster((1, 2))
    cluster.feed.create_topic("orders", (1, 2))
    cluster.run(0)
    replicas = cluster.brokers[2].replicas
    partition = replicas._env.hosted.partitions[TopicPartition("orders", 0)]
    state = replicas._fetchers._by_partition[partition].followed.by_key
    before = list(state.values())
    cluster.feed.change("orders", isr=(1,))
    cluster.run(0)
    assert list(state.values()) == before
    cluster.feed.change("orders", leader=1, isr=(1,))
    cluster.run(0)
    assert list(state.values()) != before


def test_an_answer_that_no_fetcher_waits_for_is_a_bug() -> None:
    """Of the node, which must answer each request once."""
    cluster = Cluster((1, 2))
    cluster.feed.create_topic("orders", (1, 2))
    cluster.feed.publish(2, cluster.brokers[2].replicas, cluster.now)
    replicas = cluster.brokers[2].replicas
    replicas.wake(cluster.now)
    (sent,) = [output for output in replicas.take_outputs() if isinstance(output, SendFetch)]
    replicas.on_fetch_response(sent.token, None, cluster.now)
    with pytest.raises(AssertionError, match="OneFetchInFlight"):
        replicas.on_fetch_response(sent.token, None, cluster.now)
    with pytest.raises(AssertionError, match="no fetcher waits"):
        replicas.on_list_offsets_response(sent.token, None, cluster.now)

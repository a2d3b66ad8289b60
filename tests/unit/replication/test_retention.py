"""Retention on all replicas of a cluster: when they look, what followers do, the slices."""

import pytest

from tests.unit.log.harness import PARTITION, WALL_MS
from tests.unit.log.test_deleted_files import UnsyncedDeletions, filled
from tests.unit.replication.filled import orders_on_three
from tests.unit.replication.retention_bench import RetentionBench
from tests.unit.replication.surroundings import make_env
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.replication import retention
from tidelog.replication.messages import DeletedRecords, RecordsToDelete
from tidelog.replication.partition import Partition
from tidelog.sim.replicas.cluster import CONFIG, Cluster

OLD_MS = 10_000


@pytest.fixture
def cluster() -> Cluster:
    """Three brokers with thirty committed records, each in a segment of its own."""
    return orders_on_three(80, 30)


def starts(cluster: Cluster) -> list[int]:
    """Where the log starts on each broker."""
    return [broker.log("orders").log_start_offset for broker in cluster.brokers.values()]


def names(cluster: Cluster, node: int, suffix: str) -> list[str]:
    """Files of one broker's replica."""
    broker = cluster.brokers[node]
    return [name for name in broker.disk.list_dir("orders-0") if name.endswith(suffix)]


def test_a_new_bound_counts_at_once_on_leader_and_followers(cluster: Cluster) -> None:
    """Not only at the next check; the files go with the delay."""
    segment_bytes = cluster.brokers[1].log("orders").segments[0].size_bytes
    cluster.feed.configure("orders", "file.delete.delay.ms", "2000")
    cluster.feed.configure("orders", "retention.bytes", str(10 * segment_bytes))
    cluster.run(100)
    assert starts(cluster) == [20, 20, 20]
    for node in cluster.brokers:
        assert len(names(cluster, node, ".log")) == 10
        assert len(names(cluster, node, ".log.deleted")) == 20
    cluster.run(2100)
    for node in cluster.brokers:
        assert names(cluster, node, ".deleted") == []
        cluster.brokers[node].replicas.check()


def test_what_grows_old_goes_at_the_next_check(cluster: Cluster) -> None:
    """Everything, in the end; then records are written and read as before."""
    cluster.feed.configure("orders", "retention.ms", str(OLD_MS))
    cluster.run(100)
    assert starts(cluster) == [0, 0, 0]
    cluster.run(OLD_MS + CONFIG.retention_check_interval_ms)
    assert starts(cluster) == [30, 30, 30]
    cluster.produce(1, [b"next"])
    cluster.run(1000)
    assert [one.log("orders").high_watermark for one in cluster.brokers.values()] == [31] * 3


def test_a_follower_that_was_away_gets_the_start_of_its_leader(cluster: Cluster) -> None:
    """All that it has is gone on its leader."""
    cluster.kill(3)
    cluster.feed.fence(3)
    cluster.feed.change("orders", isr=(1, 2))
    for number in range(5):
        cluster.produce(1, [b"late %d" % number])
        cluster.run(5)
    cluster.run(600)
    cluster.feed.configure("orders", "retention.bytes", "0")
    cluster.run(100)
    assert starts(cluster)[:2] == [35, 35]
    cluster.start(3)
    cluster.run(2000)
    assert starts(cluster) == [35, 35, 35]
    for broker in cluster.brokers.values():
        broker.replicas.check()


def test_files_leave_in_slices(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no turn is long. In a millisecond there are two turns at most here."""
    monkeypatch.setattr(retention, "MAX_SEGMENTS_TAKEN_OUT_PER_TURN", 3)
    broker = cluster.brokers[1]
    log = broker.log("orders")
    largest = 0
    cluster.feed.configure("orders", "retention.bytes", "0")
    for _ in range(200):
        before = len(log.segments)
        cluster.run(1)
        largest = max(largest, before - len(log.segments))
    assert len(log.segments) == 1
    assert 1 < largest <= 6


def test_what_a_follower_has_dropped_itself_is_waited_for_by_no_deletion(cluster: Cluster) -> None:
    """It drops what its leader drops, at about the same time, and takes nothing over that it would
    have to report. Its leader did not learn of it before the next record, and each deletion of what
    retention had taken already waited for its deadline."""
    cluster.feed.configure("orders", "retention.ms", str(OLD_MS))
    cluster.run(OLD_MS + CONFIG.retention_check_interval_ms + 100)
    assert starts(cluster) == [30, 30, 30]
    wanted = [RecordsToDelete("orders", 0, 30)]
    cluster.brokers[1].replicas.delete_records(wanted, "deleted", cluster.now, timeout_ms=1000)
    cluster.run(2000)
    assert cluster.replies["deleted"] == [DeletedRecords("orders", 0, ErrorCode.NONE, 30)]


def test_a_leader_learns_what_a_follower_has_dropped_alone(cluster: Cluster) -> None:
    """With another log start of it in mind the leader sent consumers of its rack there, which were
    sent back, until the next record came."""
    leader = cluster.brokers[1]
    for segment in leader.log("orders").segments:
        segment.max_timestamp = cluster.now + 10**15
    cluster.feed.configure("orders", "retention.ms", str(OLD_MS))
    cluster.run(OLD_MS + CONFIG.retention_check_interval_ms)
    assert starts(cluster) == [0, 30, 30]
    cluster.run(CONFIG.replica_fetch_wait_max_ms + 10)
    leadership = next(iter(leader.replicas.partitions.values())).leadership
    assert [remote.log_start_offset for remote in leadership.remotes.values()] == [30, 30]


def test_a_deletion_that_is_not_durable_takes_the_replica_out_of_service() -> None:
    """A later sync that succeeds proves nothing. It was tried again after a minute."""
    bench = filled(UnsyncedDeletions())
    env = make_env(bench)
    partition = env.hosted.partitions[PARTITION] = Partition(bench.log, env)
    retention.Retention(env).work(Instant(30), WALL_MS)
    ((failed, error),) = env.changed.failed
    assert failed is partition and "input/output error" in str(error)


@pytest.mark.parametrize("seed", range(40))
def test_in_any_order_nothing_durable_is_lost_and_nothing_deleted_comes_back(seed: int) -> None:
    """Goal: what was durable outlives all, the log start never falls, damage is named.
    Method: a seed draws appends, deletions, cuts, answers that come late, a disk that is full or
    refuses, clean stops, deaths of the process and of the machine, damage and repairs."""
    bench = RetentionBench(seed)
    for _ in range(bench.prng.between(30, 90)):
        bench.step()

"""DeleteRecords: which replicas are waited for, what is answered, and which files go."""

from collections.abc import Sequence

import pytest

from tidelog.errors import ErrorCode
from tidelog.log.log import Log
from tidelog.replication.messages import DeletedRecords, LogStartsSaved, RecordsToDelete
from tidelog.sim.replicas.cluster import CONFIG, Cluster
from tidelog.sim.replicas.reading import records_of


@pytest.fixture
def cluster() -> Cluster:
    """Three brokers with ten committed records."""
    cluster = Cluster()
    cluster.feed.create_topic("orders", (1, 2, 3), partitions=2)
    cluster.run(10)
    for number in range(10):
        cluster.produce(1, [b"%d" % number])
        cluster.run(5)
    cluster.run(1000)
    return cluster


def delete(
    cluster: Cluster, *offsets: int, node: int = 1, topic: str = "orders", timeout_ms: int = 1000
) -> str:
    """A request for one broker; one offset for each partition."""
    name = f"d{cluster.now}"
    wanted = [RecordsToDelete(topic, number, offset) for number, offset in enumerate(offsets)]
    cluster.brokers[node].replicas.delete_records(wanted, name, cluster.now, timeout_ms=timeout_ms)
    return name


def answered(cluster: Cluster, name: str) -> Sequence[tuple[ErrorCode, int]]:
    """Codes and low watermarks."""
    found: list[DeletedRecords] = cluster.replies[name]
    return [(result.error_code, result.low_watermark) for result in found]


def values_of(log: Log) -> list[bytes]:
    """The values of what is served."""
    return [record.value or b"" for record in records_of(log)]


def starts(cluster: Cluster) -> list[int]:
    """Where the log starts on each broker."""
    return [broker.log("orders").log_start_offset for broker in cluster.brokers.values()]


def test_all_replicas_follow_though_nothing_is_written(cluster: Cluster) -> None:
    """Two round trips, and no long poll is sat out."""
    name = delete(cluster, 4)
    cluster.run(0)
    assert starts(cluster) == [4, 0, 0] and name not in cluster.replies
    cluster.run(5)
    assert starts(cluster) == [4, 4, 4]
    assert answered(cluster, name) == [(ErrorCode.NONE, 4)]
    assert values_of(cluster.brokers[2].log("orders")) == [b"%d" % n for n in range(4, 10)]


def test_minus_one_is_the_high_watermark(cluster: Cluster) -> None:
    """What is not committed stays."""
    cluster.held |= {(2, 1), (3, 1)}
    cluster.run(1000)
    cluster.produce(1, [b"uncommitted"])
    name = delete(cluster, -1)
    cluster.run(0)
    assert starts(cluster)[0] == 10
    cluster.release(2, 1)
    cluster.release(3, 1)
    cluster.run(1500)
    assert values_of(cluster.brokers[1].log("orders")) == [b"uncommitted"]
    assert [code for code, _ in answered(cluster, name)] == [ErrorCode.NONE]


@pytest.mark.parametrize("offset", [11, -2])
def test_offsets_that_no_committed_record_can_have(cluster: Cluster, offset: int) -> None:
    """Above the high watermark, or negative; the other partition of the request is served."""
    name = delete(cluster, offset, 0)
    cluster.run(0)
    assert answered(cluster, name) == [(ErrorCode.OFFSET_OUT_OF_RANGE, -1), (ErrorCode.NONE, 0)]
    assert starts(cluster) == [0, 0, 0]


def test_who_may_not_delete(cluster: Cluster) -> None:
    """A follower, a broker without the topic, and the leader of a topic that is only compacted."""
    asked = [delete(cluster, 1, node=2)]
    cluster.run(1)
    asked.append(delete(cluster, 1, topic="nothing", node=3))
    cluster.run(1)
    cluster.feed.configure("orders", "cleanup.policy", "compact")
    cluster.run(1)
    asked.append(delete(cluster, 1))
    cluster.run(0)
    assert [answered(cluster, name) for name in asked] == [
        [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)],
        [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)],
        [(ErrorCode.POLICY_VIOLATION, -1)],
    ]
    assert starts(cluster) == [0, 0, 0]


def test_a_topic_with_no_policy_loses_records_on_request(cluster):
    """As in Kafka, which refuses what is compacted and not deleted."""
    cluster.feed.configure("orders", "cleanup.policy", "")
    cluster.run(1)
    asked = delete(cluster, 100)
    cluster.run(0)
    assert answered(cluster, asked) == [(ErrorCode.OFFSET_OUT_OF_RANGE, -1)]


def test_what_is_deleted_already_is_answered_at_once(cluster: Cluster) -> None:
    """With the low watermark, which is higher."""
    delete(cluster, 6)
    cluster.run(10)
    name = delete(cluster, 3)
    cluster.run(0)
    assert answered(cluster, name) == [(ErrorCode.NONE, 6)]


def test_the_slowest_alive_replica_is_waited_for_until_the_deadline(cluster: Cluster) -> None:
    """Then the answer has how far it got; the deletion stays, and is answered at once when it
    has come through."""
    cluster.cut.add((3, 1))
    cluster.run(600)
    name = delete(cluster, 4, timeout_ms=300)
    cluster.run(299)
    assert name not in cluster.replies and starts(cluster) == [4, 4, 0]
    cluster.run(1)
    assert answered(cluster, name) == [(ErrorCode.REQUEST_TIMED_OUT, 0)]
    cluster.cut.clear()
    cluster.run(1500)
    assert starts(cluster) == [4, 4, 4]


def test_a_fenced_replica_is_not_waited_for(cluster: Cluster) -> None:
    """The leader notices without a fetch of any replica."""
    cluster.kill(3)
    cluster.run(600)
    name = delete(cluster, 4, timeout_ms=30_000)
    cluster.run(50)
    assert name not in cluster.replies
    cluster.feed.fence(3)
    cluster.run(0)
    assert answered(cluster, name) == [(ErrorCode.NONE, 4)]


def test_a_leader_that_is_deposed_says_so(cluster: Cluster) -> None:
    """The deletion may come true or not; the next leader knows."""
    cluster.cut |= {(2, 1), (3, 1)}
    cluster.run(600)
    name = delete(cluster, 4, timeout_ms=30_000)
    cluster.run(10)
    cluster.feed.change("orders", leader=2)
    cluster.run(0)
    assert answered(cluster, name) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


def test_a_deleted_topic_answers_its_waiters(cluster: Cluster) -> None:
    """They ask for something that is not there."""
    cluster.cut |= {(2, 1), (3, 1)}
    cluster.run(600)
    name = delete(cluster, 4, timeout_ms=30_000)
    cluster.feed.delete_topic("orders")
    cluster.run(0)
    assert answered(cluster, name) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]


def test_a_new_leader_waits_for_a_fetch_of_every_replica(cluster: Cluster) -> None:
    """What a replica claimed to the former one counts for nothing."""
    cluster.cut.add((3, 2))
    cluster.feed.change("orders", leader=2)
    cluster.run(600)
    name = delete(cluster, 4, node=2, timeout_ms=300)
    cluster.run(300)
    assert answered(cluster, name) == [(ErrorCode.REQUEST_TIMED_OUT, -1)]


def test_a_follower_that_ends_below_the_start_begins_there(cluster: Cluster) -> None:
    """It was away when the records that it lacks were deleted."""
    cluster.kill(3)
    cluster.feed.fence(3)
    cluster.feed.change("orders", isr=(1, 2))
    for _ in range(5):
        cluster.produce(1, [b"more"])
        cluster.run(5)
    cluster.run(600)
    name = delete(cluster, 13)
    cluster.run(20)
    assert answered(cluster, name) == [(ErrorCode.NONE, 13)]
    cluster.start(3)
    cluster.run(1500)
    log = cluster.brokers[3].log("orders")
    assert (log.log_start_offset, log.log_end_offset) == (13, 15)
    assert values_of(log) == [b"more"] * 2


def rolled(cluster: Cluster) -> None:
    """Every record in a segment of its own, on all brokers."""
    cluster.feed.configure("orders", "segment.bytes", "80")
    cluster.run(0)
    for _ in range(3):
        cluster.produce(1, [b"rolled"])
        cluster.run(5)
    cluster.run(600)


def bases(cluster: Cluster, node: int) -> list[int]:
    """The segments of one broker."""
    return [segment.base_offset for segment in cluster.brokers[node].log("orders").segments]


def test_segments_go_when_the_log_start_is_on_the_device(cluster: Cluster) -> None:
    """On leader and followers; the one that holds the log start stays."""
    rolled(cluster)
    delete(cluster, 11)
    cluster.brokers[1].flushes = False
    cluster.run(CONFIG.recovery_point_checkpoint_interval_ms + 10)
    assert bases(cluster, 1) == [0, 10, 11, 12]
    assert bases(cluster, 2) == [11, 12]
    cluster.brokers[1].flushes = True
    cluster.run(10)
    assert bases(cluster, 1) == [11, 12]
    assert values_of(cluster.brokers[1].log("orders")) == [b"rolled"] * 2


def test_a_start_that_rose_while_its_checkpoint_was_written_waits_for_the_next(
    cluster: Cluster,
) -> None:
    """Only what is on the device proves that a missing segment was deleted."""
    rolled(cluster)
    delete(cluster, 10)
    cluster.brokers[1].flushes = False
    cluster.run(CONFIG.recovery_point_checkpoint_interval_ms + 10)
    delete(cluster, 12)
    cluster.brokers[1].flushes = True
    cluster.run(10)
    assert bases(cluster, 1) == [10, 11, 12]


def test_what_was_saved_for_a_former_topic_deletes_nothing(cluster: Cluster) -> None:
    """The topic was deleted and made again while its checkpoint was written."""
    rolled(cluster)
    delete(cluster, 11)
    cluster.brokers[1].flushes = False
    cluster.run(CONFIG.recovery_point_checkpoint_interval_ms + 10)
    cluster.feed.delete_topic("orders")
    cluster.feed.create_topic("orders", (1, 2, 3))
    cluster.run(10)
    rolled(cluster)
    cluster.brokers[1].flushes = True
    cluster.run(10)
    assert bases(cluster, 1) == [0, 1, 2]


def test_a_device_that_cannot_delete_takes_the_replica_offline(cluster: Cluster) -> None:
    """As one that cannot write does."""
    rolled(cluster)
    delete(cluster, 11)
    cluster.run(20)
    replicas = cluster.brokers[1].replicas
    starts = replicas._retention.log_starts_to_save(replicas.partitions.values())
    assert starts != []
    directory_id = replicas._env.directories.metadata.directory_id
    subject = LogStartsSaved(directory_id, tuple(starts))
    cluster.brokers[1].disk.failing = "input/output error"
    replicas.on_checkpointed(subject, cluster.now)
    replicas.wake(cluster.now)
    cluster.brokers[1].disk.failing = None
    roles = [replicas.partitions[key].role.value for key in sorted(replicas.partitions)]
    assert roles == ["offline", "leader"]


def test_a_killed_process_has_the_old_start_until_its_leader_answers(cluster: Cluster) -> None:
    """A checkpoint every minute, as in Kafka; a clean stop writes one."""
    delete(cluster, 4)
    cluster.run(20)
    cluster.kill(2)
    cluster.brokers[2].start()
    assert cluster.brokers[2].log("orders").log_start_offset == 0
    cluster.start(2)
    cluster.run(1500)
    assert starts(cluster) == [4, 4, 4]
    cluster.stop(2)
    cluster.brokers[2].start()
    assert cluster.brokers[2].log("orders").log_start_offset == 4


def deposed_with_records(cluster: Cluster, *, others: int) -> None:
    """Broker 1 wrote records alone; meanwhile others led, and deleted up to within a batch."""
    for link in ((2, 1), (3, 1)):
        cluster.cut.add(link)
    cluster.run(600)
    for _ in range(others):
        cluster.produce(1, [b"alone"])
    cluster.brokers[1].sees_metadata = False
    cluster.feed.change("orders", leader=2, isr=(2, 3))
    cluster.run(300)
    cluster.produce(2, [b"a", b"b", b"c"])
    cluster.run(300)
    delete(cluster, 11, node=2, timeout_ms=0)
    cluster.run(300)
    cluster.cut.clear()
    cluster.brokers[1].sees_metadata = True
    cluster.run(1500)


@pytest.mark.parametrize("others", [1, 2, 5])
def test_logs_that_part_below_the_leaders_start_have_nothing_in_common(
    cluster: Cluster, others: int
) -> None:
    """The leader's first batch begins below its log start, and so does what the follower has
    instead; where they part is not known any more."""
    deposed_with_records(cluster, others=others)
    log = cluster.brokers[1].log("orders")
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (11, 13, 13)
    assert [record.value for record in records_of(log) if record.offset >= 11] == [b"b", b"c"]
    assert any("restart: restarted" in line for line in cluster.lines)
    log.verify()

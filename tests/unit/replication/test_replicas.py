"""The composition: metadata, ticks, timers, failures and views."""

from dataclasses import replace

import pytest

from tidelog.config import LogConfig
from tidelog.env.effects import Replace
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.limits import FORGETTING_PAUSE_MS, MAX_PROPOSALS_PER_REQUEST
from tidelog.log.values import LogFlush
from tidelog.model import TopicPartition
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.replication.messages import LogDirFailed, SendAlterPartition
from tidelog.replication.partition import Role
from tidelog.sim.replicas.broker import Broker
from tidelog.sim.replicas.cluster import CONFIG, Cluster
from tidelog.sim.replicas.feed import topic_id_of

KEY = TopicPartition("orders", 0)


@pytest.fixture
def cluster() -> Cluster:
    """Two brokers with one topic."""
    cluster = Cluster((1, 2))
    cluster.feed.create_topic("orders", (1, 2))
    cluster.run(10)
    return cluster


def test_metadata_that_comes_before_the_broker_epoch_takes_effect_later(cluster: Cluster) -> None:
    """The answer to the registration may be slower than the metadata log."""
    broker = cluster.brokers[1]
    cluster.kill(1)
    broker.start()
    cluster.feed.forget(1)
    epoch = cluster.feed.register(1)
    cluster.run(0)
    assert not broker.replicas.partitions
    broker.replicas.broker_epoch = epoch
    cluster.run(0)
    assert len(broker.replicas.partitions) == 1


def test_a_log_with_epochs_to_come_is_damaged_and_left_as_it_is(cluster: Cluster) -> None:
    """Its field was damaged, or the metadata is an old copy: nothing is cut before the controller
    counts on the replica no longer and another broker leads."""
    cluster.kill(1)
    broker = cluster.brokers[1]
    broker.log("orders").assign_epoch(7, 0)
    effects = [effect for effect in broker.effects.take() if isinstance(effect, Replace)]
    for effect in effects:
        broker.disk.replace(effect.path, effect.data)
    broker.log("orders").append_as_leader(build_batch([Record(1, None, b"v")]), 7, 1)
    path = f"{KEY}/{0:020}.log"
    before = broker.disk.read_file(path)
    assert before
    cluster.start(1)
    cluster.run(0)
    assert not broker.replicas.partitions
    assert KEY in broker.directory.damaged
    assert broker.disk.read_file(path) == before
    assert any("leader epoch `7` at offset `0`" in line for line in cluster.lines)


def test_roles_follow_the_metadata(cluster: Cluster) -> None:
    """Goal: a replica leads and follows as the metadata says, and is gone with its topic."""
    replicas = cluster.brokers[1].replicas
    cluster.feed.change("orders", leader=2, isr=(1, 2))
    cluster.feed.publish(1, replicas, cluster.now)
    assert replicas.partitions[KEY].role is Role.FOLLOWER
    cluster.feed.change("orders", leader=1, isr=(1, 2))
    cluster.feed.publish(1, replicas, cluster.now)
    partition = replicas.partitions[KEY]
    assert (partition.role, partition.leader_epoch) == (Role.LEADER, 2)
    cluster.feed.delete_topic("orders")
    cluster.feed.publish(1, replicas, cluster.now)
    assert KEY not in replicas.partitions


def test_configs_follow_the_metadata(cluster: Cluster) -> None:
    """Of the topic at once."""
    cluster.feed.configure("orders", "segment.bytes", "4096")
    cluster.run(0)
    assert cluster.brokers[1].log("orders").config == LogConfig(segment_bytes=4096)


def test_strays_are_set_aside_once_the_metadata_counts(cluster: Cluster) -> None:
    """Before that nothing is known to be stray. Their records stay on the disk, for good."""
    broker = cluster.brokers[1]
    cluster.kill(1)
    cluster.feed.delete_topic("orders")
    broker.start()
    cluster.feed.forget(1)
    broker.replicas.remove_strays(cluster.now)
    cluster.run(10)
    assert KEY in broker.directory.logs
    broker.replicas.broker_epoch = cluster.feed.register(1)
    cluster.run(0)
    broker.replicas.remove_strays(cluster.now)
    assert broker.directory.logs == {}
    cluster.run(2 * CONFIG.recovery_point_checkpoint_interval_ms)
    (stray,) = (name for name in broker.disk.list_dir() if name.endswith("-stray"))
    assert broker.disk.exists(f"{stray}/partition.metadata")
    cluster.kill(1)
    broker.start()
    assert broker.directory.logs == {}


def test_deleted_directories_go_when_no_checkpoint_speaks_of_them(cluster: Cluster) -> None:
    """Not before that is durable."""
    broker = cluster.brokers[1]
    broker.flushes = False
    cluster.feed.delete_topic("orders")
    cluster.run(CONFIG.recovery_point_checkpoint_interval_ms)
    assert any(name.endswith("-delete") for name in broker.disk.list_dir())
    broker.flushes = True
    cluster.run(0)
    assert not any(name.endswith("-delete") for name in broker.disk.list_dir())


def test_a_deleted_topic_is_taken_out_of_the_checkpoints_at_once(cluster: Cluster) -> None:
    """They know it by name only; another of the same name may be made the next moment."""
    disk = cluster.brokers[1].disk
    cluster.produce(1, [b"a"])
    cluster.run(50 + CONFIG.high_watermark_checkpoint_interval_ms)
    assert disk.read_file("replication-offset-checkpoint") == b"0\n1\norders 0 1\n"
    cluster.feed.delete_topic("orders")
    cluster.run(20)
    assert disk.read_file("replication-offset-checkpoint") == b"0\n0\n"


def test_logs_that_are_deleted_little_by_little_leave_the_checkpoints_together(
    cluster: Cluster,
) -> None:
    """Goal: BoundedTurn; checkpoints name all logs. They are written one a turn, not again before
    they are durable, and not again in the pause after that."""
    broker = cluster.brokers[1]
    for name in ("payments", "returns", "stock"):
        cluster.feed.create_topic(name, (1, 2))
    cluster.run(FORGETTING_PAUSE_MS)
    broker.flushes = False
    for name in ("orders", "payments"):
        cluster.feed.delete_topic(name)
        cluster.run(0)
        assert len(_checkpoints_of(broker)) == 1
    cluster.run(2 * FORGETTING_PAUSE_MS)
    assert _checkpoints_of(broker).count("log-start-offset-checkpoint") == 1
    broker.flushes = True
    cluster.run(FORGETTING_PAUSE_MS - 10)
    for name in ("returns", "stock"):
        cluster.feed.delete_topic(name)
        cluster.run(0)
    assert any(name.endswith("-delete") for name in broker.disk.list_dir())
    cluster.run(FORGETTING_PAUSE_MS)
    assert not any(name.endswith("-delete") for name in broker.disk.list_dir())


def _checkpoints_of(broker: Broker) -> list[str]:
    """Those that a disk that hangs was handed."""
    return [each.path for each in broker.waiting_flushes if isinstance(each, Replace)]


def test_checkpoints_are_written_at_their_intervals(cluster: Cluster) -> None:
    """The high watermark often, the others rarely."""
    broker = cluster.brokers[1]
    cluster.produce(1, [b"a"])
    cluster.run(50)
    assert broker.disk.read_file("replication-offset-checkpoint") is None
    cluster.run(CONFIG.high_watermark_checkpoint_interval_ms)
    assert broker.disk.read_file("replication-offset-checkpoint") == b"0\n1\norders 0 1\n"
    cluster.run(CONFIG.recovery_point_checkpoint_interval_ms)
    assert broker.disk.read_file("recovery-point-offset-checkpoint") == b"0\n1\norders 0 0\n"
    assert broker.disk.read_file("log-start-offset-checkpoint") == b"0\n0\n"


def test_a_checkpoint_waits_where_the_turn_has_no_time_left(cluster: Cluster) -> None:
    """Not twice, though: other work could keep it waiting for ever."""
    broker = cluster.brokers[1]
    replicas = broker.replicas
    cluster.produce(1, [b"a"])
    now = Instant(cluster.now + CONFIG.high_watermark_checkpoint_interval_ms)
    written = []
    for _ in range(2):
        replicas.work.on_tick(now)
        replicas.work.spend(replicas.work.left)
        replicas.wake(now)
        written.append([each.path for each in broker.effects.take() if isinstance(each, Replace)])
    assert written == [[], ["replication-offset-checkpoint"]]


def test_a_disk_that_hangs_is_not_handed_more_and_more_high_watermarks(cluster: Cluster) -> None:
    """The next checkpoint waits for the last one, and is not forgotten over it."""
    broker = cluster.brokers[1]
    broker.flushes = False
    for _ in range(5):
        cluster.produce(1, [b"a"])
        cluster.run(CONFIG.high_watermark_checkpoint_interval_ms)
    waiting = [each for each in broker.waiting_flushes if isinstance(each, Replace)]
    assert [each.path for each in waiting].count("replication-offset-checkpoint") == 1
    broker.flushes = True
    cluster.run(2 * CONFIG.high_watermark_checkpoint_interval_ms)
    assert broker.disk.read_file("replication-offset-checkpoint") == b"0\n1\norders 0 5\n"


def test_the_first_flush_of_a_log_is_checkpointed_at_once(cluster: Cluster) -> None:
    """Otherwise a start could not distinguish records that were durable from others."""
    broker = cluster.brokers[1]
    cluster.feed.configure("orders", "flush.messages", "1")
    cluster.run(0)
    cluster.produce(1, [b"a"])
    cluster.run(50)
    name = "recovery-point-offset-checkpoint"
    assert broker.disk.read_file(name) == b"0\n1\norders 0 1\n"
    cluster.produce(1, [b"b"])
    cluster.run(50)
    assert broker.disk.read_file(name) == b"0\n1\norders 0 1\n"


def test_a_failed_flush_takes_the_replica_offline(cluster: Cluster) -> None:
    """What it should have made durable may be lost, whatever a later flush answers."""
    replicas = cluster.brokers[1].replicas
    name = cluster.produce(1, [b"a"])
    subject = LogFlush(KEY, topic_id_of(1), 1, True, 0)
    replicas.on_flush_failed(subject, "input/output error", cluster.now)
    outputs = replicas.take_outputs()
    assert LogDirFailed(KEY, "flush failed: input/output error") in outputs
    assert replicas.partitions[KEY].role is Role.OFFLINE
    replicas.on_flushed(subject, cluster.now)
    replicas.on_flush_failed(subject, "again", cluster.now)
    assert replicas.take_outputs() == []
    assert name not in cluster.replies


def test_a_flush_of_a_former_topic_is_ignored(cluster: Cluster) -> None:
    """Same name, other id."""
    replicas = cluster.brokers[1].replicas
    subject = LogFlush(KEY, topic_id_of(77), 1, True, 0)
    replicas.on_flushed(subject, cluster.now)
    replicas.on_flush_failed(subject, "gone", cluster.now)
    assert replicas.partitions[KEY].role is Role.LEADER


def test_a_leader_knows_all_replicas(cluster: Cluster) -> None:
    """A follower itself."""
    cluster.produce(1, [b"a", b"b"])
    cluster.run(150)
    led = cluster.brokers[1].replicas.partitions[KEY]
    leadership = led.leadership
    assert leadership is not None
    assert (led.role, led.leader_id) == (Role.LEADER, 1)
    assert (leadership.isr, leadership.maximal_isr) == ((1, 2), (1, 2))
    assert (led.log.log_end_offset, led.log.high_watermark) == (2, 2)
    ((replica_id, remote),) = leadership.remotes.items()
    assert (replica_id, remote.log_end_offset) == (2, 2)
    assert 0 <= remote.caught_up_ms_ago(cluster.now) < 150
    followed = cluster.brokers[2].replicas.partitions[KEY]
    assert followed.role is Role.FOLLOWER and followed.leadership is None
    assert followed.log.log_end_offset == 2


def test_a_hundred_appends_of_a_tick_wake_a_parked_fetch_once(cluster: Cluster) -> None:
    """And the answer holds them all."""
    name = cluster.fetch(1, 0, max_wait_ms=500)
    for number in range(100):
        cluster.produce(1, [b"%d" % number], acks=1)
    cluster.run(20)
    (answer,) = cluster.replies[name]
    assert answer.high_watermark == 100
    assert len(answer.records) == 100


def test_a_fenced_outsider_is_waited_for_no_longer(cluster: Cluster) -> None:
    """At once, not at the next append."""
    cluster.feed.change("orders", isr=(1,))
    cluster.controller = "INELIGIBLE_REPLICA"
    cluster.run(150)
    cluster.held.add((2, 1))
    cluster.run(150)
    name = cluster.produce(1, [b"a"])
    cluster.run(10)
    assert name not in cluster.replies
    cluster.feed.fence(2)
    cluster.run(0)
    assert cluster.replies[name][0].error_code is ErrorCode.NONE


def test_a_crowd_of_partitions_moves_in_one_request(cluster: Cluster) -> None:
    """Many expansions are one AlterPartition, and an idle follower lists nothing."""
    count = MAX_PROPOSALS_PER_REQUEST
    cluster.feed.create_topic("many", (1, 2), partitions=count)
    cluster.run(200)
    cluster.kill(2)
    cluster.feed.fence(2)
    for partition in range(count):
        cluster.feed.change("many", partition=partition, isr=(1,))
    cluster.run(50)
    cluster.start(2)
    cluster.proposals.clear()
    cluster.run(300)
    sizes = [len(request.proposals) for request in cluster.proposals]
    assert sum(sizes) >= count
    assert len(sizes) <= 3
    call = cluster.links.call_of(2)
    assert call.sent.request.partitions == []  # type: ignore[union-attr]


def test_a_paused_leader_does_not_blame_its_followers(cluster: Cluster) -> None:
    """Their fetches wait in its sockets; followers that really lag are found by the next check."""
    replicas = cluster.brokers[1].replicas
    cluster.produce(1, [b"a"], acks=1)
    now = Instant(cluster.now + 20 * CONFIG.replica_lag_time_max_ms)
    replicas.wake(now)
    assert not any(isinstance(o, SendAlterPartition) for o in replicas.take_outputs())
    replicas.wake(Instant(now + CONFIG.replica_lag_time_max_ms // 2))
    assert any(isinstance(o, SendAlterPartition) for o in replicas.take_outputs())


def test_offline_replicas_are_left_alone(cluster: Cluster) -> None:
    """No tick touches a log on a failed device again."""
    cluster.feed.configure("orders", "flush.messages", "1")
    cluster.run(0)
    cluster.brokers[1].disk.failing = "input/output error"
    cluster.produce(1, [b"a"])
    cluster.run(10_000)
    assert sum("log dir failed" in line for line in cluster.lines) == 1


def test_silent_producers_are_forgotten_at_intervals() -> None:
    """On leader and follower; by the wall clock that the node sets."""
    config = replace(CONFIG, producer_expiration_check_interval_ms=1000)
    cluster = Cluster((1, 2), config=config)
    cluster.feed.create_topic("orders", (1, 2))
    cluster.run(10)
    records = build_batch(
        [Record(1000, None, b"a")], producer_id=7, producer_epoch=0, base_sequence=0
    )
    cluster.brokers[1].log("orders").append_as_leader(records, 0, 1000)
    cluster.produce(1, [b"b"])
    cluster.run(2000)
    logs = [cluster.brokers[node].log("orders") for node in (1, 2)]
    assert [len(log.producers.by_id) for log in logs] == [1, 1]
    for node in (1, 2):
        cluster.brokers[node].replicas.wall_offset_ms = LogConfig().producer_id_expiration_ms
    cluster.run(2000)
    assert [len(log.producers.by_id) for log in logs] == [0, 0]

"""Compaction on all replicas of a cluster: what starts it, in which slices, and what stops it."""

from typing import Any

import pytest

from tests.unit.log.harness import TOPIC_ID, WALL_MS
from tests.unit.replication.filled import orders_on_three
from tests.unit.replication.move_bench import IDS, MoveBench
from tidelog.config import LogConfig
from tidelog.env.instant import Instant
from tidelog.env.memory_disk import Operation
from tidelog.errors import LogDamaged, StorageError
from tidelog.log.cleaning.choosing import Cleanable, cleanable_part
from tidelog.log.cleaning.round import CleaningRound
from tidelog.log.cleaning.swap import CleanedFlush
from tidelog.log.file_names import GAPS_FILE
from tidelog.log.log import Log
from tidelog.log.replacement import CLEANED_SUFFIX
from tidelog.log.state import UNCUT, LogState
from tidelog.model import TopicPartition
from tidelog.replication import cleaning
from tidelog.replication.cleaning import LogCleaner
from tidelog.replication.partition import Partition
from tidelog.sim.engine.disk import Trouble
from tidelog.sim.replicas.broker import Broker
from tidelog.sim.replicas.cluster import CONFIG, Cluster
from tidelog.sim.replicas.reading import records_of

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def cluster() -> Cluster:
    """Three brokers with sixty committed records in small segments."""
    return orders_on_three(400, 60)


def compact(cluster: Cluster) -> None:
    """The topic becomes a compacted one."""
    cluster.feed.configure("orders", "cleanup.policy", "compact")
    cluster.run(10)


def log_of(broker: Broker) -> list[tuple[int, bytes | None]]:
    """What the replica of a broker serves."""
    return [(record.offset, record.value) for record in records_of(broker.log("orders"))]


def test_every_replica_is_cleaned_and_served(cluster: Cluster) -> None:
    """Without keys nothing stays but what is active, and the last batch of each segment, empty;
    offsets go on, and a follower that begins anew gets the gaps."""
    before = [log_of(broker) for broker in cluster.brokers.values()]
    compact(cluster)
    cluster.run(2 * CONFIG.cleaner_backoff_ms)
    for broker, records in zip(cluster.brokers.values(), before, strict=True):
        log = broker.log("orders")
        after = log_of(broker)
        assert 0 < len(after) < 10 and set(after) < set(records)
        assert log.cleaned_to == log.segments.active.base_offset
        assert log.cleaning is None and log.log_end_offset == 60
        broker.replicas.check()
    cluster.feed.configure("orders", "cleanup.policy", "delete")
    cluster.run(10)
    cluster.produce(1, [b"next"])
    cluster.run(1000)
    assert [log_of(broker)[-1] for broker in cluster.brokers.values()] == [(60, b"next")] * 3


def test_a_follower_that_fetched_gaps_starts_again(cluster: Cluster) -> None:
    """It was empty; gaps that only its leader's cleaner made are no damage to it."""
    cluster.kill(3)
    cluster.feed.fence(3)
    cluster.feed.change("orders", isr=(1, 2))
    compact(cluster)
    cluster.run(2 * CONFIG.cleaner_backoff_ms)
    cluster.brokers[3].disk.delete("orders-0")
    cluster.brokers[3].disk.delete("recovery-point-offset-checkpoint")
    cluster.start(3)
    cluster.run(3000)
    assert log_of(cluster.brokers[3]) == log_of(cluster.brokers[1])
    cluster.stop(3)
    cluster.start(3)
    cluster.run(2000)
    assert cluster.brokers[3].log("orders").log_end_offset == 60
    assert not list(cluster.brokers[3].replicas.damaged)


def test_slices_are_small_and_throttled(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A millisecond between two of them, so that connections have their turns."""
    monkeypatch.setattr(cleaning, "CLEANING_WORK_PER_TURN", 20)
    compact(cluster)
    turns = 0
    for _ in range(2 * CONFIG.cleaner_backoff_ms):
        turns += cluster.brokers[1].log("orders").cleaning is not None
        cluster.run(1)
    assert turns > 20
    assert cluster.brokers[1].log("orders").cleaned_to > 0


def test_a_topic_that_is_deleted_in_mid_round_is_left_alone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round ends, and the next topic of that name is cleaned like any."""
    monkeypatch.setattr(cleaning, "CLEANING_WORK_PER_TURN", 20)
    compact(cluster)
    broker = cluster.brokers[1]
    while broker.log("orders").cleaning is None:
        cluster.run(1)
    cluster.feed.delete_topic("orders")
    cluster.run(2 * CONFIG.cleaner_backoff_ms)
    cluster.feed.create_topic("orders", (1, 2, 3))
    cluster.run(1000)
    assert (broker.log("orders").log_end_offset, broker.log("orders").cleaning) == (0, None)
    broker.replicas.check()


def test_a_full_disk_stops_the_round_and_nothing_else(cluster: Cluster) -> None:
    """Later it goes on from the beginning."""
    broker = cluster.brokers[1]
    before = log_of(broker)
    broker.disk.capacity_bytes = broker.disk.used_bytes + 10
    compact(cluster)
    cluster.run(2 * CONFIG.cleaner_backoff_ms)
    assert log_of(broker) == before
    stopped = [line for line in cluster.lines if line.startswith("b1") and "given up" in line]
    assert len(stopped) == 1 and "no space" in stopped[0]
    assert broker.replicas.partitions[ORDERS].offline is None
    names = broker.disk.list_dir("orders-0")
    assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
    broker.disk.capacity_bytes = None
    cluster.run(61_000 + 2 * CONFIG.cleaner_backoff_ms)
    assert len(log_of(broker)) < len(before)


def test_a_round_that_cannot_note_its_gaps_does_not_begin(cluster: Cluster) -> None:
    """Later it does."""
    broker = cluster.brokers[1]
    before = log_of(broker)
    broker.disk.troubles.append(Trouble("eio", frozenset((Operation.CREATE,)), sticky=False))
    compact(cluster)
    cluster.run(2 * CONFIG.cleaner_backoff_ms)
    assert log_of(broker) == before and broker.log("orders").cleaned_to < 0
    assert broker.replicas.partitions[ORDERS].offline is None
    cluster.run(61_000 + 2 * CONFIG.cleaner_backoff_ms)
    assert len(log_of(broker)) < len(before)
    assert broker.disk.exists(f"{ORDERS}/{GAPS_FILE}")


def test_a_round_that_gets_nowhere_is_not_tried_again_at_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of what may be cleaned lies within the first batch: the node searched and began
    without an end."""
    rounds = 0

    class Counted(CleaningRound):
        def __init__(self, *args: Any, **how: Any) -> None:
            nonlocal rounds
            rounds += 1
            assert rounds < 20, "the cleaner spins"
            super().__init__(*args, **how)

    def within_first_batch(log: LogState, wall_ms: int) -> Cleanable | None:
        part = cleanable_part(log, wall_ms)
        return None if part is None else part._replace(end=1)

    monkeypatch.setattr(cleaning, "CleaningRound", Counted)
    monkeypatch.setattr(cleaning, "cleanable_part", within_first_batch)
    cluster.feed.create_topic("pairs", (1, 2, 3))
    cluster.feed.configure("pairs", "segment.bytes", "100")
    cluster.run(10)
    for _ in range(3):
        cluster.produce(1, [b"one", b"two"], topic="pairs")
        cluster.run(50)
    cluster.feed.configure("pairs", "cleanup.policy", "compact")
    cluster.run(2 * CONFIG.cleaner_backoff_ms)
    assert 3 <= rounds < 20, "every broker has tried"


class CleanerBench(MoveBench):
    """A broker with three disks whose cleaner runs: a compacted log on disk 1."""

    def __init__(self) -> None:
        super().__init__(LogConfig(segment_bytes=1000, cleanup_policy="compact"))
        self.cleaner = LogCleaner(self.env)
        self.cleaner.checks.start(self.now)
        self.append(60)
        self.log.request_flush()
        self.carry_out()

    def host_another(self) -> Log:
        """A second log of that kind, on disk 2."""
        other = TopicPartition("others", 0)
        log = self.env.directories.create(other, TOPIC_ID, self.config, IDS[2])
        self.env.hosted.partitions[other] = self.partition = Partition(log, self.env)
        self.append(60)
        log.request_flush()
        self.carry_out()
        return log

    def answer(self, subject: object) -> None:
        if isinstance(subject, CleanedFlush):
            self.cleaner.on_flushed(subject, self.now)
        else:
            super().answer(subject)

    def run(self, ms: int = 5 * CONFIG.cleaner_backoff_ms) -> None:
        """So long."""
        for _ in range(ms):
            self.now = Instant(self.now + 1)
            self.cleaner.work(self.now, WALL_MS)
            self.carry_out()

    def run_to_a_round(self) -> None:
        """Until the log is being cleaned."""
        while self.log.cleaning is None:
            self.run(1)


def test_a_disk_that_fails_does_not_keep_other_logs_from_being_cleaned() -> None:
    """It answered no flush, and the round on it waited for one as long as the process lived."""
    bench = CleanerBench()
    bench.hanging = {1}
    bench.run_to_a_round()
    bench.run(10)
    bench.partition.go_offline("its directory is offline")
    other = bench.host_another()
    bench.run()
    assert other.cleaned_to > 0


@pytest.mark.parametrize("read_only", [False, True])
def test_damage_takes_the_replica_out_of_service(
    monkeypatch: pytest.MonkeyPatch, read_only: bool
) -> None:
    """It counted as records of a strange layout: the log was not cleaned any more, and stayed in
    service. A disk that takes no deletion by then goes offline; its error ended the node."""
    monkeypatch.setattr(cleaning, "CLEANING_WORK_PER_TURN", 20)
    bench = CleanerBench()
    bench.run_to_a_round()
    while not any(name.endswith(CLEANED_SUFFIX) for name in bench.disks[1].list_dir("orders-3")):
        bench.run(1)
    damaged = bench.log.segments[-2].file
    bench.disks[1].flip_bit(damaged.path, 8 * damaged.size_bytes - 9)
    if read_only:
        bench.disks[1].troubles.append(Trouble("eio", frozenset((Operation.DELETE,))))
    while not bench.env.changed.failed:
        assert bench.log.cleaning is not None, "the round has ended without a word"
        bench.run(1)
    ((partition, error),) = bench.env.changed.failed
    assert partition is bench.partition
    assert isinstance(error, StorageError if read_only else LogDamaged)


def test_a_log_that_is_about_to_be_cut_is_not_cleaned() -> None:
    """The end that checkpoints have announced was gone with its batch when the cut was made, and a
    process that died then left a log that seemed to lack records."""
    bench = CleanerBench()
    bench.log.announced_end = 50
    bench.run()
    assert bench.log.cleaned_to < 0
    bench.log.announced_end = UNCUT
    bench.run()
    assert bench.log.cleaned_to > 0

"""The parts of `bench.log` that need nodes: what clients notice of a cleaner, and how fast a new
replica catches up.

Both write small records all the time with acks=all, one after the other, and note how long each
took: before, and while the work is under way. `catch-up` is a replica that is added to a topic by a
reassignment, so it begins with nothing.
"""

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from bench.kafka_cluster import KafkaCluster
from bench.probe import probing_producer, quantile
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from tidelog.testing import LocalCluster
from tidelog.testing.waiting import wait_until

BEFORE_S = 5.0
PATIENCE_S = 300.0
MB = 10**6
Figures = dict[str, Any]


class Acks:
    """One record after the other to a topic of its own, and how long each took, in ms."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = probing_producer(bootstrap)
        self.taken_ms: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            begun = time.monotonic()
            self._producer.produce("watched", b"x" * 100)
            self._producer.flush()
            self.taken_ms.append((time.monotonic() - begun) * 1000)
            time.sleep(0.002)

    def take(self) -> float:
        """The 99th percentile since the last time."""
        return self.take_quantiles(99)[0]

    def take_quantiles(self, *percents: int) -> list[float]:
        """Percentiles since the last time."""
        taken, self.taken_ms = self.taken_ms, []
        return [round(quantile(taken, percent), 1) for percent in percents]

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


@contextmanager
def watched(bootstrap: str) -> Iterator[tuple[Acks, AdminClient]]:
    """A topic and its writer; the writer has warmed up."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    brokers = len(admin.list_topics(timeout=30).brokers)
    admin.create_topics([NewTopic("watched", 1, brokers)])["watched"].result()
    acks = Acks(bootstrap)
    try:
        time.sleep(BEFORE_S)
        acks.take()
        yield acks, admin
    finally:
        acks.close()


def fill(bootstrap: str, topic: str, size_bytes: int, record_bytes: int, keys: int) -> None:
    """Records of this size, whose keys come again and again."""
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0}
    producer, value = Producer(settings), bytes(record_bytes - 10)
    for number in range(size_bytes // record_bytes):
        while True:
            try:
                producer.produce(topic, value, key=b"%010d" % (number * 7919 % keys))
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def measure_cleaning(scale: float) -> Figures:
    """One node whose cleaner has 200 MB of records of 100 bytes before it."""
    settings = {"log.cleaner.backoff.ms": "500", "log.cleaner.min.cleanable.ratio": "0.01"}
    with (
        LocalCluster(brokers=1, profile="default", config=settings) as cluster,
        watched(cluster.bootstrap_servers) as (acks, admin),
    ):
        late = {"min.compaction.lag.ms": "86400000", "segment.bytes": str(16 << 20)}
        topic = NewTopic("keyed", 1, 1, config={"cleanup.policy": "compact", **late})
        admin.create_topics([topic])["keyed"].result()
        size_bytes = int(200 * MB * scale)
        fill(cluster.bootstrap_servers, "keyed", size_bytes, 100, keys=20_000)
        log = next(node.data_dir for node in cluster.nodes) / "keyed-0"
        segments = len(list(log.glob("*.log")))
        time.sleep(1)
        acks.take()
        time.sleep(BEFORE_S)
        before, begun = acks.take(), time.monotonic()
        operation = AlterConfigOpType.SET
        entry = ConfigEntry("min.compaction.lag.ms", "0", incremental_operation=operation)
        resource = ConfigResource(ConfigResource.Type.TOPIC, "keyed", incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result()
        wait_until(
            lambda: (log.parent / "cleaner-offset-checkpoint").exists() and is_cleaned(log.parent),
            PATIENCE_S,
            "the cleaner",
        )
        seconds = time.monotonic() - begun
        return {
            "cleaning under load": {
                "segments": segments,
                "MB/s on the clock": round(size_bytes / MB / seconds, 1),
                "p99 before ms": before,
                "p99 during ms": acks.take(),
            }
        }


def is_cleaned(directory: Path) -> bool:
    """Whether the checkpoint has the topic at an offset above its start."""
    lines = (directory / "cleaner-offset-checkpoint").read_text().splitlines()
    return any(line.startswith("keyed 0 ") and not line.endswith(" 0") for line in lines)


def measure_replicas(scale: float, *, kafka: bool = False) -> Figures:
    """A third replica of 500 MB."""
    with tempfile.TemporaryDirectory(prefix="bench-log-") as directory:
        cluster: Any = (
            KafkaCluster(Path(directory)) if kafka else LocalCluster(3, profile="default")
        )
        with cluster, watched(cluster.bootstrap_servers) as (acks, admin):
            figures = catch_up(cluster.bootstrap_servers, acks, admin, int(500 * MB * scale))
    return {f"catch-up, {'Apache Kafka' if kafka else 'Tidelog'}": figures}


def catch_up(bootstrap: str, acks: Acks, admin: AdminClient, size_bytes: int) -> Figures:
    """From the request until the ISR has all three."""
    topic = NewTopic("copied", 1, replica_assignment=[[1, 2]])
    admin.create_topics([topic])["copied"].result()
    fill(bootstrap, "copied", size_bytes, 1000, keys=1000)
    time.sleep(1)
    acks.take()
    time.sleep(BEFORE_S)
    before, begun = acks.take(), time.monotonic()
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap.split(","))) as other:
        other.alter_partition_reassignments({TopicPartition("copied", 0): [1, 2, 3]})
        wait_until(
            lambda: (
                len(admin.list_topics("copied", timeout=30).topics["copied"].partitions[0].isrs)
                == 3
            ),
            PATIENCE_S,
            "the third replica",
        )
    seconds = time.monotonic() - begun
    return {
        "MB/s": round(size_bytes / MB / seconds, 1),
        "p99 before ms": before,
        "p99 during ms": acks.take(),
    }

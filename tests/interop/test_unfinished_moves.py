"""Kafka was moving a replica between two log directories when it was killed; ours ends the move."""

import re
import signal
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from kafka.admin import KafkaAdminClient

from tests.interop.kafka_node import ALONE, format_node
from tests.interop.mixed import NOT_SERVED, Mixed
from tests.interop.records import WAIT_S, values_of
from tidelog.testing.waiting import wait_until

RECORDS, SIZE = 1_000, 4_000
THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Mixed]:
    """One node with two log directories."""
    made = Mixed(tmp_path, nodes=1, more_properties=ALONE)
    text = made.file(1).read_text()
    roots = ",".join(str(root) for root in roots_of(made))
    format_node(made.file(1), re.sub(r"log\.dirs=.*", f"log.dirs={roots}", text), *NOT_SERVED)
    yield made
    made.stop_all()


def roots_of(node: Mixed) -> tuple[Path, Path]:
    return node.place / "a", node.place / "b"


def throttle(node: Mixed, bytes_per_second: int) -> None:
    """How fast replicas move."""
    change = AlterConfigOpType.SET
    entry = ConfigEntry(THROTTLE, str(bytes_per_second), incremental_operation=change)
    broker = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    admin = node.admin(1)
    admin.incremental_alter_configs([broker])[broker].result(WAIT_S)


def sums(directory: Path) -> dict[str, str]:
    """Of the segments of a partition."""
    return {each.name: md5(each.read_bytes()).hexdigest() for each in directory.glob("*.log")}


def test_a_move_goes_on_after_kafka_was_killed(node: Mixed) -> None:
    node.start_kafka(1)
    node.wait_for_brokers()
    admin = node.admin(1)
    admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(WAIT_S)
    producer = Producer({"bootstrap.servers": node.servers, "acks": "all", "log_level": 0})
    for number in range(RECORDS):
        producer.produce("orders", str(number).zfill(SIZE).encode(), partition=0)
    assert producer.flush(WAIT_S) == 0
    source, target = sorted(roots_of(node), key=lambda root: not (root / "orders-0").exists())
    throttle(node, 1)
    mover = KafkaAdminClient(bootstrap_servers=node.servers)
    (code,) = mover.alter_replica_log_dirs({("orders", 0, 1): str(target)}).values()
    mover.close()
    assert code.errno == 0

    def unfinished() -> list[Path]:
        return [each for each in target.glob("orders-0.*-future") if sums(each)]

    def has_begun() -> bool:
        return any(file.stat().st_size for each in unfinished() for file in each.glob("*.log"))

    wait_until(has_begun, WAIT_S, "first copied batch")
    node.stop(1, signal.SIGKILL)
    (future,) = unfinished()
    before = sums(source / "orders-0")
    assert sums(future) != before
    node.start_ours(1)
    node.wait_for_brokers()
    assert future.exists()
    throttle(node, 1 << 40)
    wait_until(lambda: not future.exists(), WAIT_S, "end of the move")
    wait_until(lambda: not (source / "orders-0").exists(), WAIT_S, "end of the former replica")
    assert sums(target / "orders-0") == before
    assert values_of(node.servers, "orders", 1) == list(range(RECORDS))

"""A node may have fewer descriptors than logs: nothing of that is seen from outside.

Method: `ulimit` before the real command, which the node's process inherits; one node with more
partitions than it may open files, written, killed, started again and read by a client.
"""

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tidelog.testing.cluster_state import read_state
from tidelog.testing.processes import ProcessId

pytestmark = pytest.mark.process

LIMIT = 256
PARTITIONS = 320
FLUSHING = 1
TIMEOUT_S = 60


def limited(*arguments: object) -> Any:
    """The JSON of a command that ran, with the processes it started, under the limit."""
    command = [sys.executable, "-m", "tidelog.cli.main", *map(str, arguments), "--output", "json"]
    done = subprocess.run(
        ["sh", "-c", f'ulimit -n {LIMIT}; exec "$@"', "sh", *command],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def produce(bootstrap: str, values: range) -> None:
    """One record to each partition for each value, all acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 2})
    failed: list[str] = []
    for value in values:
        for partition in range(PARTITIONS):
            producer.produce(
                "many",
                b"%d" % value,
                partition=partition,
                on_delivery=lambda error, _: failed.append(str(error)) if error else None,
            )
    assert producer.flush(TIMEOUT_S) == 0
    assert failed == []


def consume(bootstrap: str, count: int) -> dict[int, list[bytes]]:
    """As many records as all partitions together have, when each has `count`."""
    options = {"group.id": "unused", "enable.auto.commit": False, "log_level": 2}
    consumer = Consumer({"bootstrap.servers": bootstrap, **options})
    consumer.assign([TopicPartition("many", partition, 0) for partition in range(PARTITIONS)])
    found: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    for _ in range(PARTITIONS * count):
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, "no more records"
        assert message.error() is None, message.error()
        found[message.partition()].append(message.value())
    consumer.close()
    return found


def descriptors_of(process: ProcessId) -> list[str]:
    """What a process has open."""
    targets = []
    for link in (Path("/proc") / str(process.pid) / "fd").iterdir():
        # It may close one meanwhile.
        with suppress(FileNotFoundError):
            targets.append(str(link.readlink()))
    return targets


def test_a_node_serves_more_partitions_than_it_may_open_files(data_dir: Path) -> None:
    """Goal: created, written, killed, recovered, written again and read."""
    up = limited("up", "--data-dir", data_dir, "--base-port", 0, "--brokers", 1, "--detach")
    bootstrap = up["bootstrap_servers"]
    wanted = ("many", "--partitions", PARTITIONS, "--replication-factor", 1)
    limited("topics", "create", *wanted, "--data-dir", data_dir)
    produce(bootstrap, range(2))
    limited("nodes", "kill", 1, "--data-dir", data_dir)
    limited("nodes", "start", 1, "--data-dir", data_dir)
    produce(bootstrap, range(2, 4))
    assert set(map(tuple, consume(bootstrap, 4).values())) == {(b"0", b"1", b"2", b"3")}
    state = read_state(data_dir)
    assert state is not None and state.nodes[0].process is not None
    opened = descriptors_of(state.nodes[0].process)
    # Not the checkpoints that the flush thread may be writing just now.
    logs = [path for path in opened if "/many-" in path and path.endswith(".log")]
    # The flush thread syncs a file that has no descriptor by one of its own.
    assert len(opened) < LIMIT and 100 < len(logs) <= LIMIT * 3 // 4 + FLUSHING
    limited("down", "--data-dir", data_dir)

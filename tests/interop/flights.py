"""The flights copied exactly once by each client family, while nodes and the program die.

    python -m tests.interop.flights --strikes 12 --json build/flights.json

The source gets the 336,776 flights of the demo by their keys, in as many portions as there are
strikes and one more. A program (`copiers.py`, `CopyInTransactions.java`) copies them in
transactions of 500 records with its offsets. When it has begun with a portion, one process gets a
SIGKILL and is started again: in turn the leader of a partition of the copy, the coordinator of the
transaction, the coordinator of the group, and the program itself. A program that gives up because
of it is started again too. In the end each partition of the copy, read committed, holds what the
source's holds, in order and once.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer

from tests.interop.java_tools import java_command
from tests.interop.prepare import HERE
from tests.interop.records import SEND_TIMEOUT_S, WAIT_S, committed_reader
from tidelog.cli.demo_input import InputRecord, find_input
from tidelog.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tidelog.rsm.placement import partition_of
from tidelog.testing import LocalCluster
from tidelog.testing.waiting import wait_until

PARTITIONS: Final = 4
FAMILIES: Final = ("confluent", "aiokafka", "java")
STUCK_S: Final = 90
"""A program that says nothing for so long is ended and started again: librdkafka may wait for ever
in `send_offsets_to_transaction`."""

Contents = list[list[tuple[bytes, bytes]]]
"""Keys and values by partition, in order."""


class Copier:
    """One program after the other that copies the source."""

    def __init__(self, cluster: LocalCluster, family: str, records: int, place: Path) -> None:
        self.name = f"copier-{family}"
        self.source, self.copy = f"flights-{family}", f"copy-{family}"
        for topic in (self.source, self.copy):
            cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
        arguments = cluster.bootstrap_servers, self.name, self.source, self.copy, str(records)
        if family == "java":
            self._command = java_command(str(HERE / "CopyInTransactions.java"), *arguments)
        else:
            self._command = [sys.executable, "-m", "tests.interop.copiers", family, *arguments]
        self._wanted = records
        self._log_file = place / f"{self.name}.log"
        # How far the program has come, and when it said so.
        self.done = 0
        self._said_at = 0.0
        self.starts = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def is_over(self) -> bool:
        """Whether all is copied."""
        return self.done >= self._wanted

    def keep_running(self) -> None:
        """Starts the program unless it runs, or has copied everything; ends one that is stuck."""
        process = self._process
        if process is not None and process.poll() is None:
            if time.monotonic() - self._said_at < STUCK_S:
                return
            self.kill()
        if not self.is_over:
            self._start()

    def _start(self) -> None:
        self.starts += 1
        self._said_at = time.monotonic()
        with self._log_file.open("a") as log:
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=log, text=True
            )
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.done, self._said_at = max(self.done, int(line)), time.monotonic()

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def flights(most: int) -> list[InputRecord]:
    """So many flights, or all there are."""
    found = islice(find_input(None, None).records(), most)
    return [each for each in found if isinstance(each, InputRecord)]


def _produce(cluster: LocalCluster, topic: str, records: Sequence[InputRecord]) -> None:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 2}
    )
    for each in records:
        producer.produce(topic, each.value, each.key)
        producer.poll(0)
    assert producer.flush(SEND_TIMEOUT_S) == 0


def strike(cluster: LocalCluster, copier: Copier, turn: int) -> str:
    """Ends one process and starts it again; returns which."""
    if turn % 4 == 3:
        copier.kill()
        return "the program"
    topic, number = [
        (copier.copy, turn // 4 % PARTITIONS),
        (TRANSACTIONS_TOPIC, partition_of(copier.name, _size(cluster, TRANSACTIONS_TOPIC))),
        (OFFSETS_TOPIC, partition_of(copier.name, _size(cluster, OFFSETS_TOPIC))),
    ][turn % 4]
    leader = cluster.wait_for_leader(topic, number)
    cluster.kill(leader)
    cluster.wait_for_leader(topic, number, exclude=[leader])
    cluster.start_node(leader)
    return f"node {leader}, which led {topic}-{number}"


def _size(cluster: LocalCluster, topic: str) -> int:
    return len(cluster.describe_topic(topic).partitions)


def read(cluster: LocalCluster, topic: str, count: int) -> Contents:
    """So many committed records, and what else is there when they have come."""
    consumer = committed_reader(cluster.bootstrap_servers, topic, PARTITIONS)
    found: Contents = [[] for _ in range(PARTITIONS)]
    quiet_at = time.monotonic() + WAIT_S
    while sum(map(len, found)) < count and time.monotonic() < quiet_at:
        _take(consumer, found, 5_000)
    _take(consumer, found, 1)
    consumer.close()
    return found


def _take(consumer: Consumer, found: Contents, most: int) -> None:
    for each in consumer.consume(most, 1.0):
        if not each.error():
            found[each.partition() or 0].append((each.key() or b"", each.value() or b""))


def run(
    cluster: LocalCluster, family: str, place: Path, strikes: int, records: Sequence[InputRecord]
) -> int:
    """Copies under strikes and judges; returns how often the program was started."""
    copier = Copier(cluster, family, len(records), place)

    def has_passed(count: int) -> bool:
        copier.keep_running()
        return copier.done > count

    portion = len(records) // (strikes + 1) + 1
    try:
        for turn, first in enumerate(range(0, len(records), portion)):
            _produce(cluster, copier.source, records[first : first + portion])
            if turn < strikes:
                wait_until(partial(has_passed, first), WAIT_S, f"{family} at record {first}")
                print(f"{family}: {copier.done}: {strike(cluster, copier, turn)}", flush=True)
        wait_until(partial(has_passed, len(records) - 1), WAIT_S * strikes, f"the end of {family}")
    finally:
        copier.kill()
    contents = read(cluster, copier.copy, len(records))
    assert contents == read(cluster, copier.source, len(records))
    assert sum(map(len, contents)) == len(records)
    return copier.starts


def measure(families: Sequence[str], records: int, strikes: int) -> dict[str, Any]:
    """A cluster of its own; raises `AssertionError` when something is lost, repeated or late."""
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="flights-")))
        cluster = stack.enter_context(LocalCluster(3, data_dir=place / "nodes", profile="default"))
        source = flights(records)
        for family in families:
            begun = time.monotonic()
            starts = run(cluster, family, place, strikes, source)
            took = round(time.monotonic() - begun)
            found[family] = {"records": len(source), "kills": strikes, "starts": starts, "s": took}
            print(f"{family}: {found[family]}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.flights", description=__doc__)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--records", type=int, default=336_776)
    parser.add_argument("--strikes", type=int, default=12)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = measure(options.families, options.records, options.strikes)
    if options.json is not None:
        machine = f"{os.cpu_count()} cores, {platform.machine()}"
        options.json.write_text(json.dumps({**found, "machine": machine}, indent=1))


if __name__ == "__main__":
    main()

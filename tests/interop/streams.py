"""A Kafka Streams application on our nodes, exactly once, while nodes and the application die.

    python -m tests.interop.streams --records 336776 --strikes 12

`CopyAndCount.java` copies a topic and counts its records by key and window (`exactly_once_v2`).
Records are produced in as many portions as there are strikes, and after each portion one process
gets a SIGKILL: in turn the leader of a partition of the copy, the coordinator of a transaction, the
coordinator of the group, and the application itself, which then begins with an empty directory and
has to restore its store from the changelog. In the end readers of committed data must find

- in the copy: of each key what was produced, once and in its order;
- in the counts: of each key and window 1, 2, 3 and so on, up to the number of its records.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count as numbers
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from tests.interop.java_tools import java_command
from tests.interop.prepare import HERE, STREAMS_JARS
from tests.interop.records import SEND_TIMEOUT_S, WAIT_S, committed_reader
from tidelog.model import OFFSETS_TOPIC
from tidelog.rsm.placement import partition_of
from tidelog.testing import LocalCluster
from tidelog.testing.waiting import wait_until

SOURCE, COPY, COUNTS = "streams-source", "streams-copy", "streams-counts"
PARTITIONS: Final = 4
KEYS: Final = 13
APPLICATION: Final = "copy-and-count"
WINDOW_MS: Final = 5_000
BETWEEN_RECORDS_MS: Final = 10

Found = dict[str, list[int]]
"""Values by key, in order."""


class Application:
    """One process of the application after the other."""

    def __init__(self, cluster: LocalCluster, place: Path) -> None:
        self._cluster = cluster
        self._place = place
        self._processes = 0
        self._running: subprocess.Popen[bytes] | None = None

    @property
    def log_file(self) -> Path:
        """What all of them print."""
        return self._place / "application.log"

    def start(self) -> None:
        """Begins with an empty directory."""
        self._processes += 1
        arguments = (
            self._cluster.bootstrap_servers,
            APPLICATION,
            str(self._place / f"state-{self._processes}"),
            *(SOURCE, COPY, COUNTS, str(WINDOW_MS)),
        )
        source = str(HERE / "CopyAndCount.java")
        command = java_command(source, *arguments, beside=[f"{STREAMS_JARS}/*"])
        with self.log_file.open("ab") as log:
            self._running = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self) -> None:
        """SIGKILL."""
        if self._running is not None:
            self._running.kill()
            self._running.wait()

    def check_alive(self) -> None:
        """The application must not give up by itself."""
        assert self._running is not None
        assert self._running.poll() is None, self.log_file.read_text()[-4_000:]


def strikes(cluster: LocalCluster, application: Application) -> Iterator[None]:
    """Each `next` ends one process and begins it again."""

    def strike(node_id: int) -> None:
        cluster.kill(node_id)
        cluster.start_node(node_id)

    for turn in numbers():
        if turn % 4 == 0:
            strike(cluster.wait_for_leader(COPY, turn // 4 % PARTITIONS))
        elif turn % 4 == 1:
            strike(_transaction_coordinator(cluster))
        elif turn % 4 == 2:
            size = len(cluster.describe_topic(OFFSETS_TOPIC).partitions)
            strike(cluster.wait_for_leader(OFFSETS_TOPIC, partition_of(APPLICATION, size)))
        else:
            application.kill()
            application.start()
        yield


def _transaction_coordinator(cluster: LocalCluster) -> int:
    def coordinator() -> int | None:
        with cluster.admin() as admin:
            listed = admin.transactions.list()
        own = [each for each in listed if each.transactional_id.startswith(APPLICATION)]
        return own[-1].coordinator if own else None

    return wait_until(coordinator, WAIT_S, "a transaction of the application")


def run(cluster: LocalCluster, place: Path, records: int, strike_count: int) -> None:
    """Produces, strikes and judges; see the module's docstring."""
    for topic in (SOURCE, COPY, COUNTS):
        cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
    application = Application(cluster, place)
    application.start()
    striking = strikes(cluster, application)
    begun_ms = int(time.time() * 1000) - records * BETWEEN_RECORDS_MS
    try:
        portion = records // (strike_count + 1) + 1
        for first in range(0, records, portion):
            _produce(cluster, range(first, min(first + portion, records)), begun_ms)
            if first + portion < records:
                next(striking)
        copied = read_committed(cluster, COPY, records, application)
        counts = read_committed(cluster, COUNTS, records, application)
    finally:
        application.kill()
    assert copied == {_key(number): list(range(number, records, KEYS)) for number in range(KEYS)}
    windows = Counter(
        f"{_key(index)}@{_time_of(index, begun_ms) // WINDOW_MS * WINDOW_MS}"
        for index in range(records)
    )
    assert counts == {name: list(range(1, size + 1)) for name, size in windows.items()}


def _key(index: int) -> str:
    return f"key-{index % KEYS}"


def _time_of(index: int, begun_ms: int) -> int:
    return begun_ms + index * BETWEEN_RECORDS_MS


def _produce(cluster: LocalCluster, indexes: range, begun_ms: int) -> None:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 2}
    )
    for index in indexes:
        producer.produce(
            SOURCE,
            b"%d" % index,
            key=_key(index),
            partition=index % KEYS % PARTITIONS,
            timestamp=_time_of(index, begun_ms),
        )
        producer.poll(0)
    assert producer.flush(SEND_TIMEOUT_S) == 0


def read_committed(
    cluster: LocalCluster, topic: str, expected: int, application: Application
) -> Found:
    """So many records and what else is there when they have come, by key."""
    consumer = committed_reader(cluster.bootstrap_servers, topic, PARTITIONS)
    found: Found = {}
    taken, quiet_at = 0, time.monotonic() + WAIT_S
    while taken < expected and time.monotonic() < quiet_at:
        application.check_alive()
        got = [each for each in consumer.consume(1_000, 1.0) if not each.error()]
        if got:
            taken, quiet_at = taken + len(got), time.monotonic() + WAIT_S
        for each in got:
            found.setdefault(each.key().decode(), []).append(int(each.value()))
    for each in consumer.consume(1, 1.0):
        if not each.error():
            found.setdefault(each.key().decode(), []).append(int(each.value()))
    consumer.close()
    return found


def main() -> int:
    """A cluster of its own; raises `AssertionError` when something is lost, repeated or late."""
    parser = argparse.ArgumentParser(prog="python -m tests.interop.streams", description=__doc__)
    parser.add_argument("--records", type=int, default=336_776)
    parser.add_argument("--strikes", type=int, default=12)
    options = parser.parse_args()
    begun = time.monotonic()
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="streams-")))
        cluster = stack.enter_context(LocalCluster(3, data_dir=place / "nodes", profile="default"))
        run(cluster, place, options.records, options.strikes)
    took = time.monotonic() - begun
    print(f"{options.records} records and {options.strikes} kills in {took:.0f} s: exactly once")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What clients see while nodes of Kafka become nodes of Tidelog and back; how fast mixtures are.

    make bench-mixed
    python -m bench.mixed --figures gaps --json build/mixed.json

Three nodes, brokers and controllers, on the properties files and directories that Kafka's tool has
formatted, with the defaults of both kinds.

- `gaps`: a producer (confluent-kafka, default settings) writes to one partition for each node,
  which leads it, a record to each every 5 ms. Four rounds exchange every node, the active
  controller last: Kafka for Kafka, Kafka for Tidelog, Tidelog for Tidelog, Tidelog for Kafka. A
  figure is the longest time between two acknowledgements of a partition, from the stop of a node
  until all replicas are in sync and every node leads its partition again.
- `throughput`: acknowledged records a second (acks=all, 100 bytes, six partitions) with three nodes
  of Kafka, with two and one, with one and two, and with three of Tidelog, one after the other on
  the same disks. The median of five runs, after one that warms up.
"""

import argparse
import json
import os
import platform
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.kafka_cluster import HEAP
from bench.smoke import produce_rate
from confluent_kafka import Producer
from tests.interop.java_tools import run_tool
from tests.interop.kafka_node import format_node
from tests.interop.mixed import Mixed

from tidelog.client import AdminClient, AdminError, Unreachable
from tidelog.testing.waiting import wait_until

NODES: Final = (1, 2, 3)
KAFKA, TIDELOG = "kafka", "tidelog"
ROUNDS: Final = ((KAFKA, KAFKA), (KAFKA, TIDELOG), (TIDELOG, TIDELOG), (TIDELOG, KAFKA))
PACE_S: Final = 0.005
READY_S: Final = 120.0
TOPIC: Final = "gaps"
REPLICATED: Final = """\
offsets.topic.replication.factor=3
"""
RUNS: Final = 5
RECORDS: Final = 200_000


class Exchange(Mixed):
    """Three nodes that change their kinds."""

    def __init__(self, place: Path) -> None:
        super().__init__(
            place, nodes=3, voters=NODES, more_properties=REPLICATED, java_options=HEAP
        )
        self.bootstrap_servers = self.servers
        for node_id in NODES:
            format_node(self.file(node_id), self.file(node_id).read_text(), "streams.version=0")

    def start(self, node_id: int, kind: str) -> None:
        """Starts a node of a kind; it is not waited for."""
        (self.start_kafka if kind == KAFKA else self.start_ours)(node_id)

    def ask(self) -> AdminClient:
        """Our own client."""
        return AdminClient(self.servers.split(","), timeout_s=10)

    def controller(self) -> int:
        """The active one."""
        with self.ask() as admin:
            return admin.describe_quorum().leader_id

    def wait_for_isr_of(self, topic: str) -> None:
        """Until all replicas of all partitions are in sync."""

        def full() -> bool:
            try:
                with self.ask() as admin:
                    return all(len(one.isr) == 3 for one in admin.describe_topic(topic).partitions)
            except (Unreachable, AdminError):
                return False

        wait_until(full, READY_S, f"all replicas of `{topic}` in sync")

    def elect_preferred(self, topic: str) -> None:
        """The first replica of each partition leads again."""
        plan = self.place / "elect.json"
        with self.ask() as admin:
            count = len(admin.describe_topic(topic).partitions)
        rows = [{"topic": topic, "partition": number} for number in range(count)]
        plan.write_text(json.dumps({"partitions": rows}))
        server = f"127.0.0.1:{self.ports[1]}"
        arguments = ("--election-type", "preferred", "--path-to-json-file", str(plan))
        run_tool("LeaderElectionCommand", "--bootstrap-server", server, *arguments)


class Writer(threading.Thread):
    """A producer with default settings."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": servers, "log_level": 2})
        self._over = threading.Event()
        # When records were acknowledged, by partition; and how many were not.
        self.acked_at: dict[int, list[float]] = {number: [] for number in range(len(NODES))}
        self.failed = 0

    def run(self) -> None:
        while not self._over.wait(PACE_S):
            for number in self.acked_at:
                self._producer.produce(
                    TOPIC, b"x" * 50, partition=number, on_delivery=self._on_delivery
                )
            self._producer.poll(0)
        self._producer.flush(READY_S)

    def _on_delivery(self, error: object, message: Any) -> None:
        if error is None:
            self.acked_at[message.partition()].append(time.monotonic())
        else:
            self.failed += 1

    def longest_gap_s(self, since: float, until: float) -> float:
        """Of any partition."""
        return max(
            (
                after - before
                for acked in self.acked_at.values()
                for before, after in pairwise(acked)
                if after >= since and before <= until
            ),
            default=0.0,
        )

    def stop(self) -> None:
        """Ends it, when all is acknowledged or refused."""
        self._over.set()
        self.join()


def measure_gaps(place: Path) -> dict[str, Any]:
    """All rounds."""
    cluster = Exchange(place)
    try:
        for node_id in NODES:
            cluster.start(node_id, KAFKA)
        cluster.wait_for_brokers()
        with cluster.ask() as admin:
            assignment = [NODES, (2, 3, 1), (3, 1, 2)]
            admin.create_topic(TOPIC, assignment=assignment, configs={"min.insync.replicas": "2"})
        cluster.wait_for_isr_of(TOPIC)
        writer = Writer(cluster.servers)
        writer.start()
        steps = [
            step for former, later in ROUNDS for step in exchange(cluster, writer, former, later)
        ]
        writer.stop()
        sent = sum(map(len, writer.acked_at.values()))
        return {"steps": steps, "acknowledged": sent, "failed": writer.failed}
    finally:
        cluster.stop_all()


def exchange(cluster: Exchange, writer: Writer, former: str, later: str) -> list[dict[str, Any]]:
    """One round: every node, the active controller last."""
    active = cluster.controller()
    steps = []
    for node_id in [*(each for each in NODES if each != active), active]:
        begun = time.monotonic()
        is_last = node_id == active
        cluster.stop(node_id)
        stopped = time.monotonic()
        cluster.start(node_id, later)
        cluster.wait_for_brokers()
        cluster.wait_for_isr_of(TOPIC)
        ready = time.monotonic()
        cluster.elect_preferred(TOPIC)
        time.sleep(1.0)
        over = time.monotonic()
        steps.append(
            {
                "from": former,
                "to": later,
                "node": node_id,
                "controller": "itself" if is_last else former,
                "longest_gap_s": round(writer.longest_gap_s(begun, over), 2),
                "gap_while_it_stops_s": round(writer.longest_gap_s(begun, stopped), 2),
                "gap_until_in_sync_s": round(writer.longest_gap_s(stopped, ready), 2),
                "gap_at_election_s": round(writer.longest_gap_s(ready, over), 2),
                "stop_s": round(stopped - begun, 1),
                "back_in_sync_s": round(ready - stopped, 1),
                "failed": writer.failed,
            }
        )
        print(steps[-1], flush=True)
    return steps


def measure_throughput(place: Path) -> dict[str, Any]:
    """By the number of Tidelog's nodes."""
    cluster = Exchange(place)
    topic, found = "small", {}
    try:
        for node_id in NODES:
            cluster.start(node_id, KAFKA)
        cluster.wait_for_brokers()
        with cluster.ask() as admin:
            admin.create_topic(
                topic,
                assignment=[NODES, (2, 3, 1), (3, 1, 2), NODES, (2, 3, 1), (3, 1, 2)],
                configs={"min.insync.replicas": "2", "retention.bytes": "100000000"},
            )
        for count in range(len(NODES) + 1):
            if count:
                cluster.stop(count)
                cluster.start(count, TIDELOG)
                cluster.wait_for_brokers()
            cluster.wait_for_isr_of(topic)
            cluster.elect_preferred(topic)
            produce_rate(cluster, topic, RECORDS, 100)
            rates = [round(produce_rate(cluster, topic, RECORDS, 100)) for _ in range(RUNS)]
            found[f"{len(NODES) - count} {KAFKA}, {count} {TIDELOG}"] = {
                "records_per_s": median(rates),
                "runs": rates,
            }
            print(list(found.items())[-1], flush=True)
        return found
    finally:
        cluster.stop_all()


def main() -> None:
    """Measures, prints, writes."""
    figures = {"gaps": measure_gaps, "throughput": measure_throughput}
    parser = argparse.ArgumentParser(prog="python -m bench.mixed")
    parser.add_argument("--figures", nargs="+", choices=figures, default=list(figures))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {"machine": f"{os.cpu_count()} cores, {platform.machine()}"}
    for name in options.figures:
        with tempfile.TemporaryDirectory(prefix="mixed-") as place:
            found[name] = figures[name](Path(place))
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

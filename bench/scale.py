"""Thousands of partitions: what their creation, a dead broker, restarts, elections and deletion
cost, and what an idle node costs that hosts them.

    make bench-scale                                     # 100, 1,000, 5,000 and 10,000 partitions
    make bench-scale BENCH_ARGS="--partitions 3000 --kafka"
    python -m bench.scale --partitions 1000 --steps create kill --json figures.json

Three nodes with default settings share the cores with the client. The partitions are those of one
topic, made by one CreateTopics request; above 5,000 CreatePartitions adds the rest, since a request
may need 10,000 records at most. Sixty more belong to ten small topics, five made before and
five after it, and are watched all the time: a C client (librdkafka) sends one record to each of
them every 50 ms with acks=all, and remembers when it was acknowledged. So the client has little to
do, and its own part in a gap stays small.

With `--kafka` the same is then measured on Apache Kafka 4.3.1 (`kafka_cluster`), whose jars
`make interop` fetches.

What the figures are:
- answered: CreateTopics until its answer. Led: until the metadata gives every partition a leader
  and a full ISR, and every node has the directories of all of them; the directories are counted
  five times a second, and the metadata is asked for once, after that. Served: until each partition
  acknowledged a record that all three replicas have. So it has the client's work for as many
  partitions, and that of the nodes for as many first records, beside what was asked for.
- p99: of the acknowledgements of watched partitions, from the request until the topic is led, and
  until it is served.
- gap: the longest time between two acknowledgements of a watched partition after a broker was
  killed, first one that is not the active controller, then one that is; of the sixty the least, the
  median, the longest.
- file: what a new file costs in the directory of the nodes, before they start. On ext4 without a
  journal it is ten times as much after thousands of files were deleted; no figure of a creation, a
  stop or a start means much beside one that was taken then (decision 0038).
- CPU: what the nodes spent in a step that run at its end. Other work on the machine adds little.
- clients: see `bench/scale_clients.py`.
- restart: from the start of the process until no ISR is smaller than three. Each node of Tidelog is
  asked for its count of smaller ISRs, which costs it about a millisecond; Kafka for all partitions,
  which costs the client a tenth of a second of a core each time.
- epochs: how many epochs the quorum spent in all these steps, the kill apart.
- turn: the longest turn of any node in the minute before the end of a step, and how many were above
  50 ms in the step, by the nodes' own metrics. Turn CPU: for how long one of them had a processor
  at most; laborious are turns that had one for more than 10 ms. For the rest of its turn a node
  waits: for the other processes that share the cores, or for the disk.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import repeat
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import urlopen

from bench.kafka_cluster import KafkaCluster, pid_of
from bench.probe import PATIENCE_S, Key, Probe
from bench.scale_clients import measure_clients
from bench.smoke import resident_mb
from confluent_kafka import KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from tidelog.client import AdminError, Unreachable
from tidelog.client.core.values import parse_addresses
from tidelog.testing import LocalCluster
from tidelog.testing.ports import ports_from
from tidelog.testing.waiting import wait_until

BIG = "big"
BEFORE = [f"a{number}" for number in range(5)]
AFTER = [f"z{number}" for number in range(5)]
PER_WATCHED = 6
IDLE_S = 10.0
REASSIGNED = 1000
NEW_FILES = 500
AT_ONCE = 5000
PERIOD_S = 0.05
QUESTION_PAUSE_S = 0.3
"""Between two questions about all partitions: an answer costs the client a tenth of a second of a
core, on which the nodes wait."""
LOOK_PAUSE_S = 0.2
"""Before each look at what costs little: directories, a node's metrics."""
SMALLER_ISRS = "kafka_server_replicamanager_underreplicatedpartitions"
TURNS = "tidelog_runtime_turn_seconds"
ALL_TURNS = f"{TURNS}_count"
LONG_TURNS = f'{TURNS}_bucket{{le="0.05"}}'
LONGEST = "tidelog_runtime_longest_"
LONGEST_TURN = f"{LONGEST}turn_last_minute_seconds"
LONGEST_CPU = f"{LONGEST}turn_cpu_last_minute_seconds"
LONGEST_STEP = f"{LONGEST}step_seconds"
LABORIOUS = "tidelog_runtime_laborious_turns_total"

System = LocalCluster | KafkaCluster


def watched_keys(topics: Sequence[str]) -> list[Key]:
    """All partitions of small topics."""
    return [(topic, number) for topic in topics for number in range(PER_WATCHED)]


class Bench:
    """One system with its partitions, and the steps that are measured on it."""

    def __init__(self, cluster: System, partitions: int, metrics_ports: Sequence[int]) -> None:
        self.cluster = cluster
        self.metrics_ports = metrics_ports
        self.partitions = partitions
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        self.figures: dict[str, Any] = {"partitions": partitions}
        self._create(BEFORE, PER_WATCHED)
        # What is written to all the time; topics that are there by now.
        self.watched = watched_keys(BEFORE)
        rounds = (list(self.watched) for _ in repeat(None))
        self.watch = Probe(cluster.bootstrap_servers, rounds, PERIOD_S)
        self.wait_for_watched(time.monotonic())

    def wait_for_watched(self, since: float) -> None:
        """Until every watched partition has acknowledged a record that was sent since then."""
        self.watch.wait_for_all(len(self.watched), since)

    def _create(self, names: Sequence[str], partitions: int) -> str:
        config = {"min.insync.replicas": "2"}
        topics = [NewTopic(name, partitions, 3, config=config) for name in names]
        futures = self.admin.create_topics(topics, operation_timeout=60, request_timeout=60)
        try:
            for future in futures.values():
                future.result()
        except KafkaException as error:
            return str(error.args[0].name())
        return "NONE"

    def epoch(self) -> tuple[int, int]:
        """The quorum's epoch and leader."""

        def ask() -> tuple[int, int] | None:
            try:
                with self.cluster.admin(5) as admin:
                    found = admin.describe_quorum()
            except (Unreachable, AdminError):
                return None
            return found.leader_epoch, found.leader_id

        return wait_until(ask, PATIENCE_S, "an answer of the quorum")

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Counts the quorum epochs that a step spends, and its longest turn."""
        before, _ = self.epoch()
        turns_before, cpu_before = self.turns(), self.cpu_s()
        began = time.monotonic()
        yield
        self.figures[f"{name}_s"] = round(time.monotonic() - began, 2)
        spent = [cpu - cpu_before.get(pid, 0) for pid, cpu in self.cpu_s().items()]
        self.figures[f"{name}_cpu_s"] = round(sum(spent), 1)
        self.figures[f"{name}_epochs"] = self.epoch()[0] - before
        if self.metrics_ports:
            turns = self.turns()
            # A node that stops takes its counts with it.
            new = {key: max(0, value - turns_before.get(key, 0)) for key, value in turns.items()}
            self.figures[f"{name}_turns"] = int(new[ALL_TURNS])
            self.figures[f"{name}_long_turns"] = int(new[LONG_TURNS])
            self.figures[f"{name}_laborious_turns"] = int(new[LABORIOUS])
            self.figures[f"{name}_turn_ms"] = round(turns[LONGEST_TURN] * 1000)
            self.figures[f"{name}_turn_cpu_ms"] = round(turns[LONGEST_CPU] * 1000)

    def turns(self) -> dict[str, float]:
        """What the nodes say of their turns: the sum of each count, the largest of the rest."""
        found: dict[str, float] = {}
        for port in self.metrics_ports:
            samples = scraped(port)
            if samples is None:
                continue
            turns = float(samples[ALL_TURNS])
            counted = ((ALL_TURNS, turns), (LONG_TURNS, turns - float(samples[LONG_TURNS])))
            for name, count in (*counted, (LABORIOUS, float(samples[LABORIOUS]))):
                found[name] = found.get(name, 0) + count
            for name in samples:
                if name.startswith(LONGEST):
                    found[name] = max(found.get(name, 0), float(samples[name]))
        return found

    def cpu_s(self) -> dict[int, float]:
        """CPU time of the nodes that run, by process; of Tidelog's only."""
        nodes = self.cluster.nodes if isinstance(self.cluster, LocalCluster) else ()
        pids = [node.process.pid for node in nodes if node.process is not None]
        return {pid: cpu_s(pid) for pid in pids if Path(f"/proc/{pid}").exists()}

    def isr_sizes(self) -> list[int]:
        """Of all partitions of the big topic, as some broker sees it."""
        found = self.admin.list_topics(BIG, timeout=30).topics[BIG].partitions
        return [len(one.isrs) if one.leader >= 0 else 0 for one in found.values()]

    def _is_full(self) -> bool:
        sizes = self.isr_sizes()
        if len(sizes) == self.partitions and min(sizes) == 3:
            return True
        time.sleep(QUESTION_PAUSE_S)
        return False

    def _counts_no_smaller_isr(self) -> bool:
        """Whether all nodes say so; of Kafka nothing is known before it is asked for everything."""
        if not self.metrics_ports:
            return True
        time.sleep(LOOK_PAUSE_S)
        # One after the other: an answer costs a node what it would do for its replicas meanwhile.
        found = map(scraped, self.metrics_ports)
        return all(samples is not None and float(samples[SMALLER_ISRS]) == 0 for samples in found)

    def wait_for_full_isrs(self) -> float:
        """Until all replicas of the big topic are in sync; returns when they were."""
        seen = time.monotonic()

        def full() -> bool:
            nonlocal seen
            if not self._counts_no_smaller_isr():
                return False
            seen = time.monotonic()
            return self._is_full()

        wait_until(full, PATIENCE_S, "full ISRs")
        return seen if self.metrics_ports else time.monotonic()

    def _wait_for_smaller_isrs(self) -> None:
        """Until a dead node has left an ISR, as those that are left count them."""

        def smaller() -> bool:
            if not self.metrics_ports:
                time.sleep(QUESTION_PAUSE_S)
                return 2 in self.isr_sizes()
            found = [samples for port in self.metrics_ports if (samples := scraped(port))]
            return any(float(samples[SMALLER_ISRS]) for samples in found)

        wait_until(smaller, PATIENCE_S, "a smaller ISR")

    def _wait_until_led(self) -> None:
        """Until every node has the directories of all partitions, and all ISRs are full."""
        nodes = (
            self.cluster.data_dirs
            if isinstance(self.cluster, KafkaCluster)
            else [node.data_dir for node in self.cluster.nodes]
        )

        def are_there() -> bool:
            time.sleep(LOOK_PAUSE_S)
            return all(
                sum(1 for _ in place.glob(f"{BIG}-*[0-9]")) == self.partitions for place in nodes
            )

        wait_until(are_there, PATIENCE_S, "the logs of all partitions")
        # A new topic has them from the beginning, so one question mostly is enough.
        wait_until(self._is_full, PATIENCE_S, "full ISRs")

    # Steps --------------------------------------------------------------------------------------

    def create(self) -> None:
        """A request for all partitions, or several where one may not ask for so many."""
        began = time.monotonic()
        with self.step("create"):
            self.figures["create_error"] = self._create([BIG], min(self.partitions, AT_ONCE))
            self.figures["answered_s"] = round(time.monotonic() - began, 2)
            for count in range(2 * AT_ONCE, self.partitions + 1, AT_ONCE):
                grown = self.admin.create_partitions([NewPartitions(BIG, count)])
                grown[BIG].result()
            self._wait_until_led()
            self.figures["led_s"] = round(time.monotonic() - began, 2)
            self.figures["led_p99_ms"] = self.watch.took_ms(99, began)
            self._produce_to_each()
        self.figures["create_p99_ms"] = self.watch.took_ms(99, began)
        self._create(AFTER, PER_WATCHED)
        self.watched += watched_keys(AFTER)
        self.wait_for_watched(time.monotonic())

    def _produce_to_each(self) -> None:
        settings = {
            "bootstrap.servers": self.cluster.bootstrap_servers,
            "acks": "all",
            "message.timeout.ms": int(PATIENCE_S * 1000),
            "log_level": 0,
        }
        client, left = Producer(settings), set(range(self.partitions))

        def on_delivery(error: object, message: Message) -> None:
            if error is None:
                left.discard(message.partition())

        def knows_all() -> bool:
            return len(client.list_topics(BIG, timeout=30).topics[BIG].partitions) >= len(left)

        # A broker that does not have all of the metadata yet gives the client fewer partitions.
        wait_until(knows_all, PATIENCE_S, "all partitions in the client's metadata")
        give_up_at = time.monotonic() + PATIENCE_S
        while left:
            assert time.monotonic() < give_up_at, f"{len(left)} partitions acknowledged nothing"
            for partition in sorted(left):
                client.produce(BIG, b"x", partition=partition, on_delivery=on_delivery)
            client.flush(PATIENCE_S)

    def idle(self) -> None:
        """The worst node's memory and CPU while only the watched partitions are written."""
        self.watched.clear()
        pids = [self.pid(node_id) for node_id in (1, 2, 3)]
        time.sleep(5)
        before = [cpu_s(pid) for pid in pids]
        time.sleep(IDLE_S)
        spent = max(cpu_s(pid) - was for pid, was in zip(pids, before, strict=True))
        self.figures["idle_cpu_percent"] = round(100 * spent / IDLE_S, 1)
        self.figures["memory_mb"] = round(max(resident_mb(pid) for pid in pids))
        self.watched += watched_keys(BEFORE + AFTER)
        self.wait_for_watched(time.monotonic())

    def clients(self) -> None:
        """Many connections, a consumer of many partitions, one busy partition among idle ones."""
        self.watched.clear()
        time.sleep(1)
        pids = [self.pid(node_id) for node_id in (1, 2, 3)]
        cpu = lambda: sum(map(cpu_s, pids))  # noqa: E731
        addresses = parse_addresses(self.cluster.bootstrap_servers.split(","))
        with self.step("clients"):
            self.figures |= measure_clients(addresses, BIG, self.partitions, cpu)
        self.watched += watched_keys(BEFORE + AFTER)
        self.wait_for_watched(time.monotonic())

    def pid(self, node_id: int) -> int:
        """The process of a node."""
        return pid_of(self.cluster, node_id)

    def fail_over(self) -> None:
        """Kills a broker that is not the active controller; it is back and in sync after."""
        self._kill(next(n for n in (1, 2, 3) if n != self.epoch()[1]), "")

    def fail_over_controller(self) -> None:
        """Kills the one that is."""
        self._kill(self.epoch()[1], "controller_")

    def _kill(self, victim: int, prefix: str) -> None:
        began = time.monotonic()
        self.cluster.kill(victim)
        self.wait_for_watched(began)
        gaps = self.watch.gaps_s(began)
        names = ("least", "median", "longest")
        for name, gap in zip(names, (min(gaps), median(gaps), max(gaps)), strict=True):
            self.figures[f"{prefix}gap_{name}_s"] = round(gap, 2)
        time.sleep(2)
        with self.step(f"{prefix}restart_after_kill"):
            self._restart(victim, f"{prefix}restart_after_kill")

    def restart(self) -> None:
        """A clean stop and the start after it, beside the client that writes and without it."""
        self._restart_cleanly("")
        with self.watch.paused():
            self._restart_cleanly("quiet_")

    def _restart_cleanly(self, prefix: str) -> None:
        victim = next(n for n in (1, 2, 3) if n != self.epoch()[1])
        with self.step(f"{prefix}stop"):
            self.cluster.terminate(victim, timeout_s=PATIENCE_S)
        with self.step(f"{prefix}restart"):
            self._restart(victim, f"{prefix}restart")

    def _restart(self, victim: int, name: str) -> None:
        self._wait_for_smaller_isrs()
        began = time.monotonic()
        self.cluster.start_node(victim)
        self.figures[f"{name}_full_s"] = round(self.wait_for_full_isrs() - began, 2)

    def elect(self) -> None:
        """Preferred leaders everywhere."""
        servers = self.cluster.bootstrap_servers.split(",")

        def balanced() -> bool:
            found = self.admin.list_topics(BIG, timeout=30).topics[BIG].partitions
            return all(one.leader == one.replicas[0] for one in found.values())

        with self.step("elect"):
            with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
                admin.elect_leaders(0, timeout_ms=60_000, raise_errors=False)
            wait_until(balanced, PATIENCE_S, "preferred leaders")

    def reassign(self) -> None:
        """A thousand partitions lose a replica, and get it back."""
        servers = self.cluster.bootstrap_servers.split(",")
        found = self.admin.list_topics(BIG, timeout=30).topics[BIG].partitions
        chosen = {number: one.replicas for number, one in sorted(found.items())[:REASSIGNED]}
        with self.step("reassign"), closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
            for count in (2, 3):
                wanted = {number: replicas[:count] for number, replicas in chosen.items()}
                admin.alter_partition_reassignments(
                    {TopicPartition(BIG, number): want for number, want in wanted.items()}
                )
                wait_until(partial(self._has_moved, wanted), PATIENCE_S, "the reassignment")

    def _has_moved(self, wanted: Mapping[int, Sequence[int]]) -> bool:
        found = self.admin.list_topics(BIG, timeout=30).topics[BIG].partitions
        return all(
            found[number].replicas == want and sorted(found[number].isrs) == sorted(want)
            for number, want in wanted.items()
        )

    def delete(self) -> None:
        """All partitions."""
        began = time.monotonic()
        with self.step("delete"):
            self.admin.delete_topics([BIG], operation_timeout=60, request_timeout=60)[BIG].result()
            self.figures["delete_answered_s"] = round(time.monotonic() - began, 2)
            if isinstance(self.cluster, LocalCluster):
                places = [node.data_dir for node in self.cluster.nodes]
                wait_until(
                    lambda: not any(next(p.glob(f"{BIG}-*[0-9]"), None) for p in places),
                    PATIENCE_S,
                    "the removal of all logs",
                )
        time.sleep(1)
        self.figures["delete_p99_ms"] = self.watch.took_ms(99, began)


def scraped(port: int) -> dict[str, str] | None:
    """A node's metrics, by name and labels; `None` while it does not run."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    except OSError:
        return None
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")


def cpu_s(pid: int) -> float:
    """CPU time that a process has spent."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def new_file_us(directory: Path) -> int:
    """What a new file costs there."""
    place = directory / "files"
    place.mkdir()
    began = time.perf_counter()
    for number in range(NEW_FILES):
        (place / str(number)).open("xb").close()
    return round((time.perf_counter() - began) * 1e6 / NEW_FILES)


STEPS: dict[str, Callable[[Bench], None]] = {
    "create": Bench.create,
    "idle": Bench.idle,
    "clients": Bench.clients,
    "kill": Bench.fail_over,
    "kill-controller": Bench.fail_over_controller,
    "restart": Bench.restart,
    "elect": Bench.elect,
    "reassign": Bench.reassign,
    "delete": Bench.delete,
}


def measure(partitions: int, kafka: bool, steps: Sequence[str]) -> dict[str, Any]:
    """All figures of one system and size."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scale-")))
        file_us = new_file_us(place)
        metrics_ports: list[int] = []
        if kafka:
            cluster: System = KafkaCluster(place)
        else:
            cluster = LocalCluster(3, data_dir=place / "cluster", profile="default")
            metrics_ports = [ports.controller for ports in ports_from(0, 3)]
            for node, port in zip(cluster.nodes, metrics_ports, strict=True):
                with node.properties_file.open("a") as file:
                    file.write(f"tidelog.metrics.port={port}\n")
        stack.enter_context(cluster)
        bench = Bench(cluster, partitions, metrics_ports)
        stack.callback(bench.watch.close)
        bench.figures["file_us"] = file_us
        bench.figures["system"] = "kafka" if kafka else "tidelog"
        for name in steps:
            print(f"{bench.figures['system']} {partitions:,}: {name}", file=sys.stderr, flush=True)
            try:
                STEPS[name](bench)
            except TimeoutError as error:
                bench.figures[f"{name}_failed"] = str(error)
                break
        slowest = {
            name.partition('"')[2].partition('"')[0]: round(value * 1000)
            for name, value in bench.turns().items()
            if name.startswith(LONGEST_STEP)
        }
        worst = sorted(slowest.items(), key=lambda item: -item[1])[:6]
        bench.figures["slowest_steps_ms"] = ", ".join(f"{name} {ms}" for name, ms in worst)
        return bench.figures


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.scale", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--partitions", type=int, nargs="*", default=[100, 1_000, 5_000, 10_000])
    parser.add_argument("--kafka", action="store_true", help="Apache Kafka as well")
    parser.add_argument("--steps", nargs="*", choices=tuple(STEPS), default=tuple(STEPS))
    parser.add_argument("--json", type=Path, help="a file for the figures (`bench.scale_report`)")
    options = parser.parse_args()
    # A node that is installed has byte code; without it each start compiles for half a second.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    rows = []
    for partitions in options.partitions:
        for kafka in (False, True) if options.kafka else (False,):
            rows.append(measure(partitions, kafka, options.steps))
            system = rows[-1]["system"]
            print(f"{system} {partitions:,}: {json.dumps(rows[-1])}", flush=True)
    for name in dict.fromkeys(name for row in rows for name in row):
        print(f"{name:<28}" + "".join(f"{row.get(name, '')!s:>16}" for row in rows))
    if options.json:
        git = ["git", "describe", "--always", "--dirty"]
        data = {
            "rows": rows,
            "commit": subprocess.run(git, capture_output=True, text=True).stdout.strip(),
            "machine": f"{os.cpu_count()} cores, {platform.machine()}",
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        options.json.write_text(json.dumps(data))


if __name__ == "__main__":
    main()

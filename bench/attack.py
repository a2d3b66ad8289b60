"""What other clients notice while a node is attacked: `make attack`, `python -m bench.attack`.

Three nodes as `tidelog up --secure` makes them, with default timers. The victims are a producer
with acks=all, whose records a consumer reads and compares, both in a partition that the attacked
node leads. Before the first attack they run alone; then each attack (`bench.attackers`) runs in a
process of its own, and the victims have some seconds without one behind it.

For each attack: the time from a record to its acknowledgement (p50, p99, and p99 as a multiple of
that without an attack), changes of ISRs and leaders and fencings (event files), the most memory
that a node had, and whether the attacked node serves a new client afterwards.
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
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bench.attackers import BAIT, KINDS, PACKED
from bench.probe import quantile
from bench.smoke import resident_mb
from confluent_kafka import Consumer, Producer
from tests.process.test_secure_cluster import librdkafka

from tidelog.client import AdminClient, AdminError, Unreachable
from tidelog.testing import LocalCluster
from tidelog.testing.waiting import wait_until

TOPIC: Final = "victims"
PACE_S: Final = 0.005
REST_S: Final = 5.0
PATIENCE_S: Final = 60.0
BOUND_MB: Final = 1024
"""What a node may hold at most (`docs/explanation/security.md`)."""
KILL_MB: Final = 2 * BOUND_MB
"""A node that takes more is killed, for the sake of the machine."""
DISTURBANCES: Final = ("isr_change", "election", "fenced", "suspected")
EVENTS: Final = {"tidelog.events.enable": "true"}


class Victims:
    """A producer and a consumer that never stop, and when records were acknowledged."""

    def __init__(self, cluster: LocalCluster) -> None:
        login = librdkafka(cluster, "admin")
        self._producer = Producer({**login, "enable.idempotence": "true", "linger.ms": "0"})
        more = {"group.id": "victims", "auto.offset.reset": "earliest", "log_level": "0"}
        self._consumer = Consumer({**login, **more})
        self._over = threading.Event()
        # (when it was sent, how long its acknowledgement took), in ms.
        self.acked: list[tuple[float, float]] = []
        self.failed: Counter[str] = Counter()
        # The numbers of records that were acknowledged, and those that were read.
        self._kept: list[int] = []
        self._read: list[int] = []
        self._threads = [threading.Thread(target=each) for each in (self._write, self._follow)]
        for thread in self._threads:
            thread.start()

    def _write(self) -> None:
        number, due = 0, time.monotonic()
        while not self._over.is_set():
            sent_at = time.monotonic()
            self._producer.produce(
                TOPIC,
                b"%d" % number,
                partition=0,
                on_delivery=lambda error, _, n=number, at=sent_at: self._on_answer(error, n, at),
            )
            number += 1
            # One that was held up does not try to catch up.
            due = max(due + PACE_S, sent_at)
            self._producer.poll(0)
            while (wait := due - time.monotonic()) > 0:
                self._producer.poll(wait)
        self._producer.flush(PATIENCE_S)

    def _on_answer(self, error: Any, number: int, sent_at: float) -> None:
        if error is not None:
            self.failed[error.name()] += 1
            return
        self.acked.append((sent_at, (time.monotonic() - sent_at) * 1000))
        self._kept.append(number)

    def _follow(self) -> None:
        self._consumer.subscribe([TOPIC])
        writer, ends_at = self._threads[0], float("inf")
        while writer.is_alive() or not set(self._kept) <= set(self._read):
            if not writer.is_alive():
                ends_at = min(ends_at, time.monotonic() + PATIENCE_S)
            if time.monotonic() > ends_at:
                return
            message = self._consumer.poll(1.0)
            if message is not None and message.error() is None:
                self._read.append(int(message.value()))

    def between(self, begin: float, end: float) -> list[float]:
        """The times of records that were sent then."""
        return [took for at, took in list(self.acked) if begin <= at < end]

    def close(self) -> int:
        """Ends both; how many acknowledged records were not read."""
        self._over.set()
        for thread in self._threads:
            thread.join(2 * PATIENCE_S)
        self._consumer.close()
        return len(set(self._kept) - set(self._read))


class Nodes:
    """What is seen of the nodes from outside."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._pids = {node.node_id: node.pid or 0 for node in cluster.nodes}
        self._over = threading.Event()
        # The most memory of each since that was asked for last.
        self.most_mb: dict[int, float] = {}
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            for node_id, pid in self._pids.items():
                with suppress(OSError, RuntimeError):
                    now_mb = resident_mb(pid)
                    self.most_mb[node_id] = max(self.most_mb.get(node_id, 0), now_mb)
                    if now_mb > KILL_MB:
                        self._cluster.kill(node_id)

    def disturbances(self) -> Counter[str]:
        """Events of these kinds since the start."""
        found: Counter[str] = Counter()
        for node in self._cluster.nodes:
            for line in (node.data_dir / "events.jsonl").read_text().splitlines():
                kind = json.loads(line)["kind"]
                found[kind] += kind in DISTURBANCES
        return +found

    def close(self) -> None:
        """Ends the watch."""
        self._over.set()
        self._thread.join()


def prepare(cluster: LocalCluster, attacked: int) -> None:
    """The topics, each led by the attacked node; and the attackers' rights."""
    others = [each for each in (1, 2, 3) if each != attacked]
    layout = [[attacked, *others]]
    packed = {"compression.type": "zstd", "retention.bytes": "50000000"}
    cluster.create_topic(TOPIC, assignment=layout, configs={"min.insync.replicas": "2"})
    cluster.create_topic(BAIT, assignment=layout, configs={"segment.bytes": "50000000"})
    cluster.create_topic(PACKED, assignment=layout, configs=packed)
    command = [sys.executable, "-m", "tidelog.cli.main", "acls", "add", "--topic", BAIT]
    rights = ["--allow-principal", "User:guest", "--operation", "read", "--operation", "write"]
    where = ["--resource-pattern-type", "prefixed", "--data-dir", str(cluster.data_dir)]
    subprocess.run([*command, *rights, *where], check=True, capture_output=True)
    bait = Producer({**librdkafka(cluster, "admin"), "acks": "all"})
    for _ in range(60):
        bait.produce(BAIT, os.urandom(900_000), partition=0)
        bait.flush(PATIENCE_S)


def limit(cluster: LocalCluster, quotas: Sequence[str]) -> None:
    """Gives the attackers' user quotas."""
    if quotas:
        pairs = (quota.split("=") for quota in quotas)
        with cluster.admin() as admin:
            admin.quotas.alter({"user": "guest"}, {name: float(value) for name, value in pairs})


def attack(cluster: LocalCluster, attacked: int, kind: str, seconds: float) -> dict[str, Any]:
    """Runs one to its end; what it has done."""
    order = {
        "host": "127.0.0.1",
        "port": cluster.node(attacked).port,
        "properties": str(cluster.security.properties_file("guest")),
        "seconds": seconds,
    }
    ran = subprocess.run(
        [sys.executable, "-m", "bench.attackers", kind, json.dumps(order)],
        capture_output=True,
        text=True,
        timeout=seconds + PATIENCE_S,
        check=False,
        start_new_session=True,
    )
    lines = ran.stdout.strip().splitlines() or [json.dumps({"error": ran.stderr[-300:]})]
    done: dict[str, Any] = json.loads(lines[-1])
    return done


def serves(cluster: LocalCluster, attacked: int) -> bool:
    """Whether the attacked node logs a new client in and answers, within the patience."""
    node, login = cluster.node(attacked), cluster.security.client()
    with AdminClient([node.address], timeout_s=PATIENCE_S, security=login) as admin:
        try:
            return len(admin.describe_cluster().nodes) == 3
        except (Unreachable, AdminError):
            print(node.log_file.read_text(errors="replace")[-2000:], file=sys.stderr)
            return False


def measure(
    cluster: LocalCluster, kinds: Sequence[str], seconds: float
) -> tuple[list[dict[str, Any]], Victims]:
    """One row for each attack, that without one first."""
    victims, nodes, rows = Victims(cluster), Nodes(cluster), []
    wait_until(lambda: len(victims.acked) > 200, PATIENCE_S, "acknowledgements")
    try:
        for kind in ("none", *kinds):
            nodes.most_mb.clear()
            before, begin = nodes.disturbances(), time.monotonic()
            done = {} if kind == "none" else attack(cluster, 1, kind, seconds)
            if kind == "none":
                time.sleep(seconds)
            took = victims.between(begin, time.monotonic())
            row = {
                "attack": kind,
                "seconds": round(time.monotonic() - begin),
                "records": len(took),
                "p50_ms": round(quantile(took, 50), 1) if took else None,
                "p99_ms": round(quantile(took, 99), 1) if took else None,
                "max_ms": round(max(took), 1) if took else None,
                "memory_mb": {node: round(most) for node, most in nodes.most_mb.items()},
                "done": done,
                "serves": serves(cluster, 1),
            }
            time.sleep(REST_S)
            row["disturbances"] = dict(nodes.disturbances() - before)
            rows.append(row)
            print(json.dumps(row), flush=True)
    finally:
        nodes.close()
        lost = victims.close()
    rows.append({"attack": "all", "lost": lost, "failed": dict(victims.failed)})
    return rows, victims


def main() -> int:
    """Runs all attacks and prints a table; exit code 1 when a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.attack", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="of each attack")
    parser.add_argument("--kinds", default=",".join(KINDS), help="which attacks, in which order")
    parser.add_argument(
        "--quotas", nargs="*", default=[], help="of the attackers, e.g. producer_byte_rate=5000000"
    )
    parser.add_argument(
        "--config", nargs="*", default=[], help="of the nodes, e.g. quota.window.num=2"
    )
    parser.add_argument("--json", type=Path, help="write the result here as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="attack-") as directory:
        place = Path(directory) / "cluster"
        config = EVENTS | dict(each.split("=", 1) for each in options.config)
        with LocalCluster(
            3, data_dir=place, secure=True, profile="default", config=config
        ) as cluster:
            prepare(cluster, attacked=1)
            limit(cluster, options.quotas)
            rows, _ = measure(cluster, options.kinds.split(","), options.seconds)
    return report(rows, options.json)


def report(rows: list[dict[str, Any]], file: Path | None) -> int:
    """The table; 1 when a goal is missed."""
    *attacks, total = rows
    usual = attacks[0]["p99_ms"]
    print(f"{'attack':<14}{'p50 ms':>9}{'p99 ms':>9}{'x':>6}{'MB':>7}  isr  serves")
    missed = total["lost"]
    for row in attacks:
        ratio = (row["p99_ms"] or float("inf")) / usual
        memory = max(row["memory_mb"].values())
        shrinks = sum(row["disturbances"].values())
        missed += ratio > 3 or memory > BOUND_MB or bool(shrinks) or not row["serves"]
        times = "".join(f"{row[name] or 0:>9,.1f}" for name in ("p50_ms", "p99_ms"))
        end = f"{memory:>7,}  {shrinks:>3}  {row['serves']}"
        print(f"{row['attack']:<14}{times}{ratio:>6.1f}{end}")
    print(f"goals: x <= 3, MB <= {BOUND_MB}, isr 0; lost {total['lost']}, failed {total['failed']}")
    if file is not None:
        machine = f"{os.cpu_count()} cores, {platform.machine()}"
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        file.write_text(json.dumps({"rows": rows, "machine": machine, "at": at}, indent=1))
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())

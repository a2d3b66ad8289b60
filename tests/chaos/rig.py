"""One round: a cluster, its clients, a schedule of faults, healing, and what is left to judge.

    start, create topics, start clients
    every step of the schedule
    heal; every replica in sync within the liveness bound
    producers: each partition acknowledges one more record within the bound; then they end
    a reader reads everything up to the high watermark
    all nodes stop; the judge compares histories and segments

Timing decides nothing but liveness, and its bound is generous: a slow machine makes a round longer
and not red. A round's directory holds everything the judge needs, and is the bundle when the
judge finds something.
"""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.chaos.clients import ROLES
from tests.chaos.cluster import ChaosCluster
from tests.chaos.copiers import COPY
from tests.chaos.kinds import TIMERS, Kinds, command_of
from tests.chaos.nemesis import Nemesis
from tests.chaos.schedule import draw_schedule
from tests.chaos.topics import CLEANED, CONFIGS, NODE_SETTINGS
from tidelog.client import AdminError, Unreachable
from tidelog.testing.waiting import wait_until

LIVENESS_S: Final = 180.0
"""How long anything may take after all faults have ended."""

SMALL_DISK_MB: Final = 512
DISKS: Final = 2
"""Log directories of each node, where no node is one of Apache Kafka."""
REPOSITORY: Final = Path(__file__).parents[2]
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Plan:
    """What a round is made of; together with the code, all that a repetition needs."""

    seed: int
    brokers: int = 3
    steps: int = 12
    partitions: int = 4
    rates: Mapping[str, int] | None = None
    """Records a second by role; a role without a rate does not take part."""
    base_port: int | None = None
    secure: bool = False
    """Clients and nodes log in, over TLS; certificates, a password and rights change."""
    kinds: Kinds = ()
    """Of each node; with kinds, timers are longer and a topic is copied in transactions."""

    @property
    def copy_of(self) -> str | None:
        """The topic that the copiers copy."""
        return self.topics[0] if self.kinds else None

    @property
    def all_topics(self) -> tuple[str, ...]:
        """Those of the producers, and the copy."""
        return (*self.topics, COPY) if self.copy_of else self.topics

    @property
    def topics(self) -> tuple[str, ...]:
        """One for each producer, called like its role."""
        rates = self.rates or RATES
        roles = [role for role in ROLES if rates.get(role)]
        return tuple(role for role in roles if not (self.kinds and role in CLEANED))

    @property
    def command(self) -> str:
        """Runs this round again."""
        shape = f"--brokers {self.brokers} --steps {self.steps}"
        if self.kinds:
            shape += f" --kinds {command_of(self.kinds)}"
        if self.secure:
            shape += " --secure"
        return f"python -m tests.chaos --seed {self.seed} {shape} --rounds 1"


RATES: Final = {
    "idempotent": 3000,
    "plain": 1000,
    "leader": 400,
    "async": 400,
    **dict.fromkeys(CLEANED, 500),
}
COPIERS: Final = ("copier-1", "copier-2")


class Client:
    """One client process."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.name = order["name"]
        self.history = Path(order["path"])
        self._errors = self.history.with_suffix(".err")
        program = f"tests.chaos.{order['program']}"
        with self._errors.open("w", encoding="utf-8") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", program, json.dumps(order)],
                stdin=subprocess.PIPE,
                stderr=errors,
                cwd=REPOSITORY,
            )

    def ask_to_finish(self) -> None:
        """The client ends what it does, then its process."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            try:
                self._process.stdin.write(b"finish\n")
                self._process.stdin.close()
            except BrokenPipeError:
                return

    def complaint(self, timeout_s: float) -> str:
        """Waits for its end; empty when that was good."""
        try:
            code = self._process.wait(max(timeout_s, 0.1))
        except subprocess.TimeoutExpired:
            # It leaves its stack beside its history.
            self._process.send_signal(signal.SIGABRT)
            self._process.wait()
            return f"client {self.name} did not end within {timeout_s:.0f} s after healing"
        if code == 0:
            return ""
        lines = self._errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"client {self.name} ended with {code}: {lines[-1] if lines else 'see its history'}"

    def kill(self) -> None:
        """Ends the process, if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class Round:
    """One round; see the module's docstring."""

    def __init__(self, plan: Plan, directory: Path) -> None:
        self.plan = plan
        self.directory = directory
        # What went wrong already, the nemesis' own mishaps included.
        self.mishaps: list[str] = []
        self._clients: list[Client] = []
        self._replicas: dict[str, list[list[int]]] = {}

    def run(self) -> dict[str, Any]:
        """Runs it to the end and writes `round.json`; returns its content."""
        started = time.monotonic()
        self.directory.mkdir(parents=True)
        cluster = ChaosCluster(
            self.plan.brokers,
            self.directory / "cluster",
            base_port=self.plan.base_port,
            small_disk_mb=SMALL_DISK_MB,
            profile="default" if self.plan.kinds else "test",
            config=TIMERS if self.plan.kinds else NODE_SETTINGS,
            kinds=self.plan.kinds,
            disks=1 if self.plan.kinds else DISKS,
            protected_topics=self.plan.topics if self.plan.secure else (),
        )
        nemesis = Nemesis(cluster, self.plan.all_topics, self.plan.partitions)
        disk = "none"
        try:
            with cluster:
                disk = cluster.small_disk.kind if cluster.small_disk else disk
                self._hurt(cluster, nemesis)
                self._finish(cluster, nemesis)
        finally:
            for client in self._clients:
                client.kill()
        return self._write(cluster, nemesis, disk, time.monotonic() - started)

    def _hurt(self, cluster: ChaosCluster, nemesis: Nemesis) -> None:
        for topic in self.plan.all_topics:
            cluster.local.create_topic(
                topic,
                partitions=self.plan.partitions,
                replication_factor=3,
                configs={"min.insync.replicas": "2", **CONFIGS.get(topic, {})},
            )
        self._start_clients(cluster)
        try:
            self._wait_for_clients()
            plan = self.plan
            steps = draw_schedule(plan.seed, plan.steps, kinds=bool(plan.kinds), secure=plan.secure)
            for step in steps:
                nemesis.carry_out(step)
        finally:
            nemesis.heal()

    def _start_clients(self, cluster: ChaosCluster) -> None:
        rates = self.plan.rates or RATES
        for topic in self.plan.topics:
            kind = "consume-async" if topic in ("async", "plain") else "consume"
            if topic not in CLEANED:
                self._start_client(cluster, topic, f"consumer-{topic}", kind)
            self._start_client(cluster, topic, topic, topic, rate=rates[topic])
        if self.plan.copy_of:
            for name in COPIERS:
                more = {"program": "copiers", "source": self.plan.copy_of}
                self._start_client(cluster, COPY, name, "copy", **more)

    def _wait_for_clients(self) -> None:
        """Until each has done something: a round is about running clients."""
        histories = [client.history for client in self._clients if client.name not in COPIERS]
        wait_until(
            lambda: all(path.exists() and path.stat().st_size for path in histories),
            LIVENESS_S,
            "first operation of every client",
        )

    def _start_client(
        self, cluster: ChaosCluster, topic: str, name: str, role: str, **more: Any
    ) -> Client:
        histories = self.directory / "history" / topic
        histories.mkdir(parents=True, exist_ok=True)
        order = {
            "program": "clients",
            "name": name,
            "role": role,
            "topic": topic,
            "bootstrap": cluster.bootstrap_servers,
            "login": cluster.protection.login() if cluster.protection else {},
            "partitions": self.plan.partitions,
            "path": str(histories / f"{name}.jsonl"),
            "patience_s": LIVENESS_S,
            **more,
        }
        client = Client(order)
        self._clients.append(client)
        return client

    def _finish(self, cluster: ChaosCluster, nemesis: Nemesis) -> None:
        if not nemesis.wait_for_recovery(LIVENESS_S):
            self.mishaps.append(f"not in sync {LIVENESS_S:.0f} s after healing: {nemesis.behind()}")
        if cluster.protection is not None:
            self.mishaps += cluster.protection.complaints(LIVENESS_S)
        # The copiers end when they have copied all that the producers have sent.
        self._end_clients([each for each in self._clients if each.name not in COPIERS])
        self._end_clients([each for each in self._clients if each.name in COPIERS])
        ends = self._wait_for_ends(cluster)
        readers = [
            self._start_client(cluster, topic, f"reader-{topic}", "read", ends=ends[topic])
            for topic in ends
            if topic not in (COPY, *CLEANED)
        ]
        readers += [
            self._start_client(cluster, topic, f"reader-{topic}", "read", program="cleaned")
            for topic in ends
            if topic in CLEANED
        ]
        if COPY in ends:
            name, role = f"reader-{COPY}", "read-committed"
            readers.append(self._start_client(cluster, COPY, name, role, program="copiers"))
        for reader in readers:
            self._complain(reader.complaint(LIVENESS_S + 30))

    def _end_clients(self, clients: Sequence[Client]) -> None:
        deadline = time.monotonic() + LIVENESS_S + 30
        for client in clients:
            client.ask_to_finish()
        for client in clients:
            self._complain(client.complaint(deadline - time.monotonic()))

    def _wait_for_ends(self, cluster: ChaosCluster) -> dict[str, dict[int, int]]:
        """Waits until each partition's replicas have one end, and the high watermark is there."""
        deadline = time.monotonic() + LIVENESS_S
        ends: dict[str, dict[int, int]] = {}
        while True:
            try:
                with cluster.local.admin() as admin:
                    found = admin.describe_topics(self.plan.all_topics, replica_logs=True)
            except (Unreachable, AdminError) as error:
                unequal = [str(error)]
            else:
                self._replicas = {
                    topic.name: [list(one.replicas) for one in topic.partitions] for topic in found
                }
                unequal = [
                    f"{topic.name}-{one.partition}: {one.replica_logs}"
                    for topic in found
                    for one in topic.partitions
                    if len({log.log_end_offset for log in one.replica_logs}) > 1
                    or any(log.high_watermark < log.log_end_offset for log in one.replica_logs)
                ]
                ends = {
                    topic.name: {
                        one.partition: max(log.high_watermark for log in one.replica_logs)
                        for one in topic.partitions
                    }
                    for topic in found
                }
            if not unequal:
                return ends
            if time.monotonic() > deadline:
                self.mishaps.append(f"replicas do not become equal: {unequal[:3]}")
                return ends
            time.sleep(_POLL_S)

    def _complain(self, complaint: str) -> None:
        if complaint:
            self.mishaps.append(complaint)

    def _write(
        self, cluster: ChaosCluster, nemesis: Nemesis, disk: str, seconds: float
    ) -> dict[str, Any]:
        facts = {
            "command": self.plan.command,
            "seed": self.plan.seed,
            "brokers": self.plan.brokers,
            "steps": self.plan.steps,
            "seconds": round(seconds, 1),
            "kinds": command_of(self.plan.kinds),
            "secure": self.plan.secure,
            "kinds_at_end": command_of(tuple(cluster.kinds.values())),
            "topics": list(self.plan.topics),
            "copy_of": self.plan.copy_of,
            "replicas": self._replicas,
            "data_dirs": {
                node.node_id: str(node.data_dir.relative_to(self.directory.resolve()))
                for node in cluster.local.nodes
            },
            "faults": dict(sorted(nemesis.faults.items())),
            "disk_full_by": disk,
            "mishaps": [*nemesis.mishaps, *self.mishaps],
            "events": nemesis.events,
        }
        path = self.directory / "round.json"
        path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        return facts


class Judge:
    """The judge's process for a round that is over."""

    def __init__(self, directory: Path, facts: dict[str, Any]) -> None:
        self.directory = directory
        self._facts = facts
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.judge", str(directory)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        )

    def verdict(self, keep: Path) -> dict[str, Any]:
        """Waits for it. The directory of a clean round goes, any other is moved to `keep`."""
        text, errors = self._process.communicate()
        facts = {name: self._facts[name] for name in _COPIED}
        if self._process.returncode != 0:
            last = (errors.strip().splitlines() or ["no output"])[-1]
            judged: dict[str, Any] = {
                "anomalies": 1,
                "first_anomalies": [f"the judge failed: {last}"],
                "acknowledged": 0,
            }
        else:
            judged = json.loads(text)
        result = {**facts, **judged}
        if result["anomalies"] == 0:
            shutil.rmtree(self.directory)
        else:
            keep.mkdir(parents=True, exist_ok=True)
            bundle = keep / f"seed-{facts['seed']}-{int(time.time())}"
            shutil.move(self.directory, bundle)
            (bundle / "verdict.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
            result["bundle"] = str(bundle)
        return result


_COPIED: Final = (
    "command",
    "seed",
    "brokers",
    "kinds",
    "secure",
    "seconds",
    "faults",
    "disk_full_by",
)


def result_line(result: Mapping[str, Any]) -> str:
    """A round in one line."""
    faults = ", ".join(f"{count} {kind}" for kind, count in result["faults"].items())
    return (
        f"seed {result['seed']}, {result['kinds'] or result['brokers']} "
        f"{'protected ' if result['secure'] else ''}nodes, "
        f"{result['seconds']:.0f} s: "
        f"{sum(result['faults'].values())} faults ({faults}), "
        f"{result.get('records_gone', 0)} records compacted away or deleted, "
        f"{result['acknowledged']} records acknowledged by all, "
        f"{result.get('acknowledged_by_leader', 0)} by the leader, "
        f"{result['anomalies']} anomalies, "
        f"{len(result.get('by_kafka_alone', ()))} by Kafka alone, "
        f"longest gap {result.get('longest_gap_ms', 0)} ms "
        f"({'; '.join(result.get('during_longest_gap', ()))})"
    )


def complaint(result: Mapping[str, Any]) -> str:
    """What to read when a round has failed: what, where, and how to run it again."""
    lines: Sequence[str] = [
        *(f"anomaly: {text}" for text in result["first_anomalies"]),
        f"bundle: {result['bundle']}",
        f"run it again: {result['command']}",
    ]
    return "\n".join(lines)

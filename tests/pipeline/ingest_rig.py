"""Killing what an ingest consists of, again and again, and judging the table from outside.

A run: a cluster, a producer that never stops, `tidelog spark ingest --trigger 500ms` as a process
of its own. Each kill is a SIGKILL at a random moment. After a few of them, close together,
everything that was acknowledged before must reach the table before the next. At the end the table
is read by delta-rs and pyarrow, without Spark, and compared with the producer's acknowledgements
and with the brokers' log ends. Values are JSON, but some are not: table and quarantine together
must have each record once.

| kind | what dies |
| --- | --- |
| `driver` | the command and its JVM, at once; the command is started again |
| `jvm` | the driver's JVM alone; the command ends, and is started again |
| `worker` | a Python process that reads or writes for a task, or plans for the driver |
| `executor` | an executor's JVM (only where executors are processes: `local-cluster`) |
| `broker` | the leader of some partition; it is started again after the recovery |

Timing decides nothing but patience.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from confluent_kafka import Producer
from pyarrow.fs import FileSelector

from tests.s3_server import S3Server
from tidelog.env.prng import Prng
from tidelog.pipeline.jobs.ingest import BatchWriter
from tidelog.pipeline.tables.addresses import TableAddress
from tidelog.pipeline.tables.table import ingest_commits
from tidelog.testing import LocalCluster
from tidelog.testing.waiting import wait_until

PATIENCE_S = 1200.0
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_MAX_DELAY_MS = 2500
_POLL_S = 0.4


@dataclass(frozen=True)
class KillPlan:
    """One run."""

    kinds: Sequence[str]
    """What to kill, in this order."""
    topic: str
    directory: Path
    master: str
    seed: int = 1
    burst: int = 1
    """So many kills before the ingest may recover; at most one broker is down at a time."""
    records_per_s: int = 300
    mode: str = "append"
    store: S3Server | None = None
    """Where the table is, if it is not in the directory."""
    place: str = ""
    """The table's address in the store."""
    metrics_port: int | None = None
    """Where the ingest serves its metrics."""

    @property
    def table(self) -> TableAddress:
        if self.store is None:
            return TableAddress.of(self.directory / "table")
        return TableAddress.of(self.place, self.store.options)


@dataclass
class KillResult:
    """What a run found."""

    kills: dict[str, int] = field(default_factory=dict)
    recovery_s: list[float] = field(default_factory=list)
    """From the last kill of each burst until the table had what was acknowledged before it."""
    restarts: int = 0
    acknowledged: int = 0
    log_end_offsets: int = 0
    rows: int = 0
    """In the table and in the quarantine together."""
    quarantined: int = 0
    distinct: int = 0
    lost: int = 0
    misplaced: int = 0
    versions: int = 0
    orphans: int = 0
    violations: int = 0
    exit_code: int | None = None

    @property
    def duplicates(self) -> int:
        """Rows whose partition and offset another row has."""
        return self.rows - self.distinct

    @property
    def is_exact(self) -> bool:
        """Every acknowledged record once, and nothing else; what does not parse, and nothing else,
        in the quarantine."""
        wrong = self.lost or self.duplicates or self.misplaced or self.violations
        return not wrong and self.rows == self.log_end_offsets >= self.acknowledged

    def as_json(self) -> dict[str, Any]:
        """Plain values for scripts."""
        return {
            "total_kills": sum(self.kills.values()),
            **{name: value for name, value in vars(self).items() if name != "recovery_s"},
            "duplicates": self.duplicates,
            "exact": self.is_exact,
            "recovery_s": [round(seconds, 1) for seconds in self.recovery_s],
        }


def value_of(number: int) -> bytes:
    """Each 50th is not what the schema says."""
    return b'{"number": "%d"}' % number if number % 50 == 0 else b'{"number": %d}' % number


class Feeder:
    """A producer that never stops; its values have the numbers of its records."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        records_per_s: int,
        value: Callable[[int], bytes | None] = value_of,
    ) -> None:
        self._value = value
        self._topic = topic
        self._pause_s = 0.05
        self._step = max(1, round(records_per_s * self._pause_s))
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 0,
                "delivery.timeout.ms": 600_000,
            }
        )
        self._sent = 0
        # What was acknowledged: number of the record → (partition, offset).
        self.acked: dict[int, tuple[int, int]] = {}
        self.failed = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._pause_s):
            for _ in range(self._step):
                number = self._sent
                self._producer.produce(
                    self._topic,
                    self._value(number),
                    key=b"%d" % (number % 97),
                    on_delivery=lambda error, message, n=number: self._received(n, error, message),
                )
                self._sent += 1
            self._producer.poll(0)

    def _received(self, number: int, error: Any, message: Any) -> None:
        if error is not None:
            self.failed += 1
        else:
            self.acked[number] = (message.partition(), message.offset())

    def close(self) -> None:
        """Ends it; every record is answered for."""
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(PATIENCE_S)
        assert not left, f"{left} records were never answered"


def ingest_command(plan: KillPlan, bootstrap: str) -> list[str]:
    """`tidelog spark ingest --trigger 500ms`."""
    schema = plan.directory / "values.ddl"
    schema.write_text("number bigint")
    command = [
        *(sys.executable, "-m", "tidelog.cli.main", "spark", "ingest", "--trigger", "500ms"),
        *("--topic", plan.topic, "--table", str(plan.table)),
        *("--value-format", "json", "--value-schema", str(schema), "--mode", plan.mode),
        *("--bootstrap-server", bootstrap, "--master", plan.master, "--output", "json"),
        *("--conf", f"spark.executor.extraJavaOptions={_SHORT_LIVED}"),
    ]
    if plan.metrics_port is not None:
        command += ["--metrics-port", str(plan.metrics_port)]
    if plan.store is not None:
        command += ["--checkpoint", str(plan.directory / "checkpoint")]
    return command


class SparkProcess:
    """A command that runs on Spark, and the processes below it."""

    def __init__(
        self, command: Sequence[str], directory: Path, environment: Mapping[str, str]
    ) -> None:
        self._command = command
        self._log = (directory / "ingest.log").open("ab")
        # What a killed driver leaves of its own is gone with the rest.
        scratch = directory / "scratch"
        scratch.mkdir()
        self._environment = {**os.environ, "TMPDIR": str(scratch), **environment}
        self._process: subprocess.Popen[bytes] | None = None
        # Everything that was ever seen below a run: (pid, start time).
        self._seen: set[tuple[int, str]] = set()
        self.starts = 0

    def keep_running(self) -> None:
        """Starts it, the first time and when it has ended."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                self._command,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=self._environment,
                start_new_session=True,
            )
            self.starts += 1

    def kill(self, kind: str, prng: Prng) -> bool:
        """SIGKILL to one of a kind; false when there is none at the moment."""
        assert self._process is not None
        below = dict(self._below())
        java = [pid for pid, line in below.items() if "SparkSubmit" in line]
        found = {
            "driver": [self._process.pid],
            "jvm": java,
            "executor": [p for p, line in below.items() if "CoarseGrainedExecutorBackend" in line],
            "worker": [p for p, line in below.items() if " pyspark." in line],
        }[kind]
        if not found:
            return False
        try:
            for pid in [prng.choice(found), *(java if kind == "driver" else ())]:
                os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False  # It has ended by itself meanwhile.
        return True

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def wait_for_end(self) -> None:
        """Until the command has ended by itself, or was killed by others; its JVM dies too."""
        assert self._process is not None
        below = [pid for pid, line in self._below() if "SparkSubmit" in line]
        self._process.wait(PATIENCE_S)
        for pid in below:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self) -> dict[str, Any]:
        """A SIGTERM; gives the summary that the command prints."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        out, _ = self._process.communicate(timeout=PATIENCE_S)
        return {"code": self._process.returncode, **json.loads(out or b"{}")}

    def close(self) -> None:
        """Leaves nothing behind, whatever happened."""
        list(self._below())
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        for pid, begun in self._seen:
            if _started_at(pid) == begun:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._log.close()

    def _below(self) -> Iterator[tuple[int, str]]:
        """All living descendants and their command lines."""
        if self._process is None:
            return
        parents = dict(_processes())
        for pid in parents:
            above, steps = pid, 0
            while above in parents and above != self._process.pid and steps < 20:
                above, steps = parents[above], steps + 1
            if above == self._process.pid and pid != above:
                line = _read(pid, "cmdline").replace("\0", " ")
                self._seen.add((pid, _started_at(pid)))
                yield pid, line


def _processes() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            fields = _read(int(entry.name), "stat").rpartition(")")[2].split()
            if fields:
                yield int(entry.name), int(fields[1])


def _started_at(pid: int) -> str:
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return fields[19] if fields and fields[0] != "Z" else ""


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""


def fail_once_behind(moment: str, monkeypatch: Any) -> None:
    """The first batch ends with an error behind a step of `BatchWriter`; later ones do not."""
    whole, fails = getattr(BatchWriter, moment), [OSError("no space left")]

    def failing(self: BatchWriter, *arguments: Any) -> Any:
        done = whole(self, *arguments)
        if fails:
            raise fails.pop()
        return done

    monkeypatch.setattr(BatchWriter, moment, failing)


@contextmanager
def spark_process(
    command: Sequence[str], directory: Path, environment: Mapping[str, str] = MappingProxyType({})
) -> Iterator[SparkProcess]:
    """A command that leaves no process behind."""
    process = SparkProcess(command, directory, environment)
    try:
        yield process
    finally:
        process.close()


def ingest_process(plan: KillPlan, bootstrap: str) -> AbstractContextManager[SparkProcess]:
    """An ingest that leaves no process behind."""
    environment = {} if plan.store is None else plan.store.environment
    return spark_process(ingest_command(plan, bootstrap), plan.directory, environment)


def run_kills(
    cluster: LocalCluster, plan: KillPlan, say: Any = lambda text: None, until: float = float("inf")
) -> KillResult:
    """Everything: feed, ingest, kill and recover, stop, judge. `until` is a monotonic moment after
    which no further kill begins. The topic must be there."""
    plan.directory.mkdir(parents=True, exist_ok=True)
    result = KillResult()
    prng = Prng(plan.seed)
    feeder = Feeder(cluster.bootstrap_servers, plan.topic, plan.records_per_s)
    with ingest_process(plan, cluster.bootstrap_servers) as ingest:
        wait_for_table(plan, ingest, len(feeder.acked))
        for first in range(0, len(plan.kinds), plan.burst):
            if time.monotonic() > until:
                break
            kinds = plan.kinds[first : first + plan.burst]
            _kill_and_recover(cluster, plan, feeder, ingest, kinds, prng, result)
            say(
                f"{sum(result.kills.values())} kills, the last {', '.join(kinds)}: recovered in "
                f"{result.recovery_s[-1]:.1f} s"
            )
        feeder.close()
        wait_for_table(plan, ingest, len(feeder.acked))
        summary = ingest.stop()
        result.exit_code = summary["code"]
        result.restarts = ingest.starts - 1
    assert not feeder.failed, f"{feeder.failed} records could not be produced"
    judge(cluster, plan, feeder, result)
    return result


def _kill_and_recover(
    cluster: LocalCluster,
    plan: KillPlan,
    feeder: Feeder,
    ingest: SparkProcess,
    kinds: Sequence[str],
    prng: Prng,
    result: KillResult,
) -> None:
    dead: int | None = None
    for kind in kinds:
        time.sleep(prng.below(_MAX_DELAY_MS) / 1000)
        if kind != "broker":
            wait_until(
                lambda kind=kind: _tried(ingest, kind, prng), PATIENCE_S, f"a {kind} to kill"
            )
        elif dead is None:
            dead = kill_a_leader(cluster, plan.topic, prng)
        else:
            continue
        result.kills[kind] = result.kills.get(kind, 0) + 1
    begun = time.monotonic()
    wait_for_table(plan, ingest, len(feeder.acked))
    result.recovery_s.append(time.monotonic() - begun)
    if dead is not None:
        cluster.start_node(dead)
        ids = [node.node_id for node in cluster.nodes]
        for partition in cluster.describe_topic(plan.topic).partitions:
            cluster.wait_for_isr(plan.topic, partition.partition, ids, timeout_s=PATIENCE_S)


def kill_a_leader(cluster: LocalCluster, topic: str, prng: Prng) -> int:
    """The leader of some partition; its id."""
    partition = prng.choice(cluster.describe_topic(topic).partitions).partition
    leader = cluster.wait_for_leader(topic, partition, timeout_s=PATIENCE_S)
    cluster.kill(leader)
    return leader


def _tried(ingest: SparkProcess, kind: str, prng: Prng) -> bool:
    ingest.keep_running()
    return ingest.kill(kind, prng)


def wait_for_table(plan: KillPlan, ingest: SparkProcess, records: int) -> None:
    """Until the table has so many records; the ingest is started again when it has ended."""

    def reached() -> bool:
        time.sleep(_POLL_S)
        ingest.keep_running()
        return records_in_table(plan.table) >= max(records, 1)

    wait_until(reached, PATIENCE_S, f"{records} records in the table")


def records_in_table(table: TableAddress) -> int:
    """The number of offsets in the table by its newest commit."""
    if not table.is_table:
        return 0
    metadata = next(iter(ingest_commits(table, table.delta().version())), {"positions": {}})
    return sum(end for end, _ in metadata["positions"].values())


def log_end_offsets(cluster: LocalCluster, topic: str) -> int:
    """The sum over the topic's partitions."""
    described = cluster.describe_topic(topic, replica_logs=True)
    return sum(
        max(log.log_end_offset for log in partition.replica_logs)
        for partition in described.partitions
    )


def judge(cluster: LocalCluster, plan: KillPlan, feeder: Feeder, result: KillResult) -> None:
    """Reads the table without Spark and compares."""
    place = plan.table
    delta = place.delta()
    columns = ["partition", "offset", "value"]
    rows = delta.to_pyarrow_table(columns=columns).to_pylist()
    bad = (place / "_quarantine").delta().to_pyarrow_table(columns=columns).to_pylist()
    numbers = [row["value"]["number"] for row in rows]
    # A good record in the quarantine has a number that no record has at its place.
    numbers += [n if n % 50 == 0 else -1 for n in (int(row["value"][12:-2]) for row in bad)]
    places = [(row["partition"], row["offset"]) for row in rows + bad]
    values = dict(zip(places, numbers, strict=True))
    result.rows, result.distinct, result.quarantined = len(places), len(values), len(bad)
    result.acknowledged = len(feeder.acked)
    result.lost = sum(place not in values for place in feeder.acked.values())
    result.misplaced = sum(values.get(at, n) != n for n, at in feeder.acked.items())
    result.versions = delta.version()
    written = place.files.get_file_info(FileSelector(f"topic={plan.topic}"))
    result.orphans = len(written) - len(delta.file_uris())
    result.log_end_offsets = log_end_offsets(cluster, plan.topic)
    statuses = (place / "_continuity").delta().to_pyarrow_table().column("status")
    result.violations = sum(status != "ok" for status in statuses.to_pylist())

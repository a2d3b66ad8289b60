"""The figures of the Spark pipeline, each measured on this machine.

    make bench-spark                                    # all parts, some 15 minutes
    python -m bench.spark --only audit --only session --scale 0.1 --runs 3

| part | what is timed |
| --- | --- |
| session | a new process until its first result from a Python task, without and with the archive |
| topic | the topic source: count and sum of lengths, 100-byte and 1 KiB values |
| parquet | the segment source: one broker's records to Parquet by Spark's writer |
| export | the same records to Parquet by `tidelog spark export` |
| audit | the replica audit over three brokers' directories; the same of batches of one record |
| planning | 1,000 partitions, 10 GB of segments: tasks planned; memory while headers are read |
| partitions | a stream's batch over 100,000 partitions planned (`bench/spark_planning.py`) |
| ingest | a streaming batch from a topic into a Delta table (`bench/spark_ingest.py`) |
| continuous | the same at 20,000 records a second: how old records are when they are visible |
| typed | raw and JSON ingest, upserts of new keys and of old ones (`bench/spark_upsert.py`) |
| waits | first row in a new process, first 100,000 records by command (`bench/spark_waits.py`) |
| memory | of the processes of an ingest of 1 and of 10 million records (the same) |
| campaign | simulator seeds as a Spark job, beside the same seeds in two processes |

Everything runs on two cores (`local[2]`). The first run of a part in its session is *cold*, the
median of the others is *warm*. Topics are made by a cluster of three nodes on this machine, whose
directories the segment source and the audit then read; 10 GB are one file under a thousand names.
The official connector's side of `topic` is `bench/spark_connector.py`.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from bench.spark_connector import fill
from bench.spark_ingest import batch_latency
from bench.spark_planning import planning_cost
from bench.spark_upsert import upsert_rates
from bench.spark_waits import memories, seconds_to_answer, waits
from tests.unit.pipeline.log_directories import batches, write_broker

from tidelog.cli.sim import in_processes, timed
from tidelog.pipeline.campaign.seeds import RunKind
from tidelog.pipeline.jobs.audit import audit
from tidelog.pipeline.jobs.campaign import CampaignPlan, run_campaign
from tidelog.pipeline.jobs.export import export
from tidelog.pipeline.logs.layout import find_replicas, plan_tasks
from tidelog.pipeline.spark.spark_session import session
from tidelog.records.batch import build_batch, patch_base
from tidelog.records.record import Record
from tidelog.sim.campaign.seeds import run_seed
from tidelog.testing import LocalCluster

MASTER = "local[2]"
LOADS = {"100": (100, 1_000_000), "1024": (1024, 200_000)}
PARTITIONS = 1_000
SEGMENT_BYTES = 10_000_000
SEEDS = 40
SMALL_BATCHES = 775_000

Figure = dict[str, Any]


class Bench:
    """One run of the chosen parts, on a cluster that is made when a part needs it."""

    def __init__(self, place: Path, runs: int, scale: float) -> None:
        # Where everything is written.
        self.place = place
        # Warm runs of each part.
        self.runs = runs
        # Of records, seeds and segments, 1 being what the figures are stated for.
        self.scale = scale
        # The data directory of the cluster, once it was filled.
        self._filled: Path | None = None
        # What was measured so far.
        self.figures: list[Figure] = []

    def note(self, part: str, seconds: list[float], amount: float, unit: str, **more: Any) -> None:
        """Keeps a figure: the first run is the cold one."""
        warm = statistics.median(seconds[1:] or seconds)
        self.figures.append(
            {
                "part": part,
                "cold_s": round(seconds[0], 2),
                "warm_s": round(warm, 2),
                "rate": round(amount / warm, 3),
                "unit": unit,
                **more,
            }
        )
        print(f"{part}: cold {seconds[0]:.2f} s, warm {warm:.2f} s", file=sys.stderr)

    def repeated(self, work: Callable[[], object]) -> list[float]:
        """Seconds of a cold run and the warm ones."""
        return [_seconds(work) for _ in range(self.runs + 1)]

    @contextmanager
    def cluster(self) -> Iterator[tuple[LocalCluster, dict[str, int]]]:
        """Three nodes with a filled topic for each load; the records of each."""
        counts = {name: int(count * self.scale) for name, (_, count) in LOADS.items()}
        with LocalCluster(brokers=3, data_dir=self.place / "nodes") as running:
            if self._filled is None:
                for name, (size, _) in LOADS.items():
                    fill(running, f"values-{name}", size, counts[name])
                self._filled = running.data_dir
            yield running, counts

    def directories(self) -> Path:
        """The directories of the filled cluster, which has stopped."""
        if self._filled is None:
            with self.cluster():
                pass
        assert self._filled is not None, "filling sets it"
        return self._filled


def measure_session(bench: Bench) -> None:
    """New processes, in an own cache directory."""
    script = (
        "import sys; from tidelog.pipeline.spark.spark_session import SHORT_RUN, session;"
        f"spark = session('bench', '{MASTER}', SHORT_RUN);"
        "rows = spark.range(10).mapInArrow(lambda batches: batches, 'id bigint').count();"
        "print(rows, flush=True); sys.stdin.read()"
    )
    for name, switch in (("without archive", "off"), ("with archive", "on")):
        environ = {
            **os.environ,
            "TIDELOG_CLASS_ARCHIVE": switch,
            "XDG_CACHE_HOME": str(bench.place / "cache"),
        }
        seconds = [seconds_to_answer(script, "10", environ=environ) for _ in range(bench.runs + 1)]
        bench.note(f"session, {name}", seconds, 1, "sessions/s")


def measure_topic(bench: Bench) -> None:
    """The question of `bench/spark_connector.py`, asked of our source alone."""
    spark = session("bench", MASTER)
    with bench.cluster() as (running, counts):
        for name, (size, _) in LOADS.items():
            records = (
                spark.read.format("tidelog")
                .schema("value binary")
                .option("kafka.bootstrap.servers", running.bootstrap_servers)
                .option("subscribe", f"values-{name}")
            )

            def ask(records: Any = records, expected: int = counts[name], size: int = size) -> None:
                row = records.load().selectExpr("count(*)", "sum(length(value))").collect()[0]
                assert tuple(row) == (expected, expected * size), f"the topic has {tuple(row)}"

            count = counts[name]
            bench.note(f"topic, {size} B", bench.repeated(ask), count / 1e6, "M records/s")


def measure_parquet(bench: Bench) -> None:
    """All columns of the 100-byte records of one broker."""
    spark = session("bench", MASTER)
    records = (
        spark.read.format("tidelog.segments")
        .option("path", str(_first_log_dir(bench)))
        .option("topics", "values-100")
        .option("mode", "records")
        .load()
    )
    written = str(bench.place / "parquet")

    def write() -> None:
        records.write.mode("overwrite").parquet(written)

    count = int(LOADS["100"][1] * bench.scale)
    bench.note("segments to Parquet", bench.repeated(write), count / 1e6, "M records/s")
    assert spark.read.parquet(written).count() == count


def measure_export(bench: Bench) -> None:
    """The same records and columns, each task with a Parquet writer of its own."""
    spark = session("bench", MASTER)
    log_dir = _first_log_dir(bench)
    count = int(LOADS["100"][1] * bench.scale)

    def write() -> None:
        out = bench.place / f"export-{time.monotonic_ns()}"
        done = export(spark, [log_dir], ["values-100"], out)
        assert done.records == count, f"{done.records} records instead of {count}"

    bench.note("segments to Parquet, export", bench.repeated(write), count / 1e6, "M records/s")


def _first_log_dir(bench: Bench) -> Path:
    return Path(find_replicas([bench.directories()])[0].segments[0].path).parent.parent


def measure_audit(bench: Bench) -> None:
    """Three replicas of everything."""
    spark = session("bench", MASTER)
    directories = [bench.directories()]
    found = audit(spark, directories, topics=[f"values-{name}" for name in LOADS])
    assert found.is_clean, found.findings
    topics = [f"values-{name}" for name in LOADS]
    seconds = bench.repeated(lambda: audit(spark, directories, topics=topics))
    bench.note("audit", seconds, found.bytes / 1e9, "GB/s", batches=found.batches)
    small = _small_batches(bench.place / "small", max(int(SMALL_BATCHES * bench.scale), 100))
    found = audit(spark, [small])
    assert found.is_clean, found.findings
    seconds = bench.repeated(lambda: audit(spark, [small]))
    bench.note("audit, small batches", seconds, found.batches / 1e6, "M batches/s")


def _small_batches(root: Path, count: int) -> Path:
    """Three brokers with `count` batches of one record and 490 bytes, together, in six partitions
    each. The offset lies before what a checksum covers, so one batch serves for all."""
    content = bytearray(build_batch([Record(0, b"k", b"v" * 418)], base_offset=0, leader_epoch=1))
    own = count // 18
    block = bytearray()
    for offset in range(own):
        patch_base(content, 0, offset, 1)
        block += content
    for broker in (1, 2, 3):
        partitions = {f"small-{number}": [bytes(block)] for number in range(6)}
        write_broker(root, broker, partitions, own)
    return root


def measure_planning(bench: Bench) -> None:
    """Planning alone, then a count over all headers, and the largest memory meanwhile."""
    spark = session("bench", MASTER)
    log_dir = bench.place / "many" / "data"
    partitions = _many_partitions(log_dir, max(int(PARTITIONS * bench.scale), 10))
    seconds = bench.repeated(lambda: plan_tasks(find_replicas([log_dir])))
    bench.note("planning 1,000 partitions", seconds, partitions, "partitions/s")
    for share in (4, 1):
        batches_read = (
            spark.read.format("tidelog.segments")
            .schema("size int, partition int")
            .option("path", str(log_dir))
            .load()
            .where(f"partition < {partitions // share}")
        )
        seconds, peak = _peak_memory(spark, lambda rows=batches_read: rows.count())
        size_gb = partitions // share * SEGMENT_BYTES / 1e9
        bench.note(f"headers of {size_gb:.1f} GB", [seconds], size_gb, "GB/s", **peak)


def measure_partitions(bench: Bench) -> None:
    """A tenth of them, and all: time and memory grow no faster than their number."""
    for topics in (10, 100):
        found = planning_cost(max(int(topics * bench.scale), 1), 1_000)
        seconds, partitions = found.pop("seconds"), found.pop("partitions")
        bench.note(f"planning {partitions:,} partitions", [seconds], partitions, "/s", **found)


def _many_partitions(log_dir: Path, partitions: int) -> int:
    block = b"".join(batches(1_000))
    segment = log_dir.parent / "segment"
    log_dir.mkdir(parents=True)
    with segment.open("wb") as file:
        while file.tell() < SEGMENT_BYTES:
            file.write(block)
    for number in range(partitions):
        place = log_dir / f"many-{number}"
        place.mkdir()
        (place / f"{0:020d}.log").hardlink_to(segment)
    (log_dir / "meta.properties").write_text("version=1\nnode.id=1\n")
    return partitions


def _peak_memory(spark: Any, work: Callable[[], object]) -> tuple[float, Figure]:
    """Seconds, and the largest resident memory of Java and of the largest Python worker, MB."""
    import threading

    java = spark._jvm.java.lang.ProcessHandle.current().pid()
    done = threading.Event()
    peak = {"java_mb": 0, "worker_mb": 0}

    def watch() -> None:
        while not done.wait(0.5):
            for name, pids in (("java_mb", [java]), ("worker_mb", _descendants(java))):
                sizes = [_resident_mb(pid) for pid in pids]
                peak[name] = max(peak[name], *sizes, 0)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        seconds = _seconds(work)
    finally:
        done.set()
        watcher.join()
    return seconds, peak


def _descendants(parent: int) -> list[int]:
    listed = subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True, check=True)
    pairs = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()[1:]]
    found = [parent]
    for _ in range(3):
        found = [pid for pid, above in pairs if above in found or pid in found]
    return [pid for pid in found if pid != parent]


def _resident_mb(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    rows = [line.split() for line in text.splitlines() if line.startswith("VmRSS:")]
    return int(rows[0][1]) // 1024 if rows else 0


def measure_campaign(bench: Bench) -> None:
    """The same seeds of the cluster tier, both ways."""
    spark = session("bench", MASTER)
    seeds = range(1, 1 + max(int(SEEDS * bench.scale), 4))
    run = partial(run_seed, "cluster", "all")
    # So that neither side pays for imports and Java's first steps.
    warm_up = CampaignPlan(RunKind("cluster", "all", 300.0), range(2), 1)
    run_campaign(spark, warm_up, run, str(bench.place / "runs-warm"))

    def in_spark() -> None:
        table = bench.place / f"runs-{time.monotonic_ns()}"
        plan = CampaignPlan(RunKind("cluster", "all", 300.0), seeds, 5)
        assert run_campaign(spark, plan, run, str(table)).newly_run == len(seeds)

    def in_two_processes() -> None:
        assert len(list(in_processes(2, partial(timed, "cluster", "all"), seeds))) == len(seeds)

    ours, theirs = [], []
    for _ in range(max(bench.runs // 2, 1)):
        theirs.append(_seconds(in_two_processes))
        ours.append(_seconds(in_spark))
    bench.note("campaign, two processes", theirs, len(seeds), "seeds/s")
    ratio = round(statistics.median(theirs) / statistics.median(ours), 2)
    bench.note("campaign, Spark", ours, len(seeds), "seeds/s", of_multiprocessing=ratio)


def measure_ingest(bench: Bench) -> None:
    """How long the batches of a stream from a topic into a Delta table take."""
    spark = session("bench", MASTER)
    with bench.cluster() as (running, _):
        batches_wanted = max(int(60 * bench.scale), 5)
        found = batch_latency(spark, running, bench.place / "ingest", batches=batches_wanted)
    p50_s = found["batch_ms"]["p50"] / 1000
    bench.note("streaming batch to Delta, p50", [p50_s], 1, "batches/s", **found)


def measure_continuous(bench: Bench) -> None:
    """The age of the oldest record of each batch when the batch was in the table."""
    spark = session("bench", MASTER)
    with LocalCluster(1, data_dir=bench.place / "continuous") as running:
        steady = {"batches": max(int(60 * bench.scale), 5), "records_per_s": 20_000}
        place, spread = bench.place / "continuous-table", {"topic": "steady", "replicas": 1}
        found = batch_latency(spark, running, place, **steady, **spread)
    bench.note("age of records, p50", [found["age_ms"]["p50"] / 1000], 1, "/s", **found)


def measure_typed(bench: Bench) -> None:
    """A million changes of 100,000 keys, as raw records, as ten columns, and folded."""
    spark = session("bench", MASTER)
    size = {"changes": int(1_000_000 * bench.scale), "keys": int(100_000 * bench.scale)}
    with LocalCluster(1, data_dir=bench.place / "typed") as running:
        found = upsert_rates(spark, running, bench.place / "typed-tables", **size)
    for name, one in found.items():
        bench.note(f"ingest, {name}", [one["seconds"]], one["changes"] / 1e6, "M records/s")


def measure_waits(bench: Bench) -> None:
    """What a user waits for who begins."""
    records = int(100_000 * bench.scale)
    parts = ("first-row", "first-batch")
    found = waits(bench.place / "waits", runs=bench.runs, records=records, only=parts)
    for name, runs in found.items():
        for what, seconds in runs["warm"].items():
            bench.note(f"{name}, {what}", [runs["first"][what], seconds], 1, "/s")


def measure_memory(bench: Bench) -> None:
    """One ingest after the other, each of processes of its own."""
    for one in memories(bench.place, [int(n * bench.scale) for n in (1_000_000, 10_000_000)]):
        records, rate = one.pop("records"), one.pop("per_s")
        bench.note(f"ingest of {records:,}", [records / rate], records / 1e6, "M records/s", **one)


PARTS: dict[str, Callable[[Bench], None]] = {
    "session": measure_session,
    "topic": measure_topic,
    "parquet": measure_parquet,
    "export": measure_export,
    "audit": measure_audit,
    "planning": measure_planning,
    "partitions": measure_partitions,
    "ingest": measure_ingest,
    "continuous": measure_continuous,
    "typed": measure_typed,
    "waits": measure_waits,
    "memory": measure_memory,
    "campaign": measure_campaign,
}


def _seconds(work: Callable[[], object]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description="The figures of the Spark pipeline")
    parser.add_argument("--runs", type=int, default=5, help="warm runs; the median counts")
    parser.add_argument("--scale", type=float, default=1.0, help="of records, seeds and segments")
    parser.add_argument("--only", action="append", choices=list(PARTS), help="a part")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(Path(place), arguments.runs, arguments.scale)
        for name in arguments.only or PARTS:
            PARTS[name](bench)
    report = {
        "commit": _commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "runs": arguments.runs,
        "scale": arguments.scale,
        "figures": bench.figures,
    }
    print(f"{'what':28} {'cold s':>8} {'warm s':>8} {'rate':>12} unit")
    for row in bench.figures:
        print(
            f"{row['part']:28} {row['cold_s']:8.2f} {row['warm_s']:8.2f} "
            f"{row['rate']:12.3f} {row['unit']}"
        )
    text = json.dumps(report)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()

"""What a user who begins waits for, and what memory a long ingest takes.

    python -m bench.spark_waits --records 100000 --only first-row --only first-batch
    python -m bench.spark_waits --only memory --records 1000000 --records 100000000 --value-bytes 20
    python -m bench.spark_waits --only memory --records 100000000 --value-bytes 20 --partitions 1000

| part | what is measured |
| --- | --- |
| first-row | a new process: imports, session, the first row of a topic in Python |
| first-batch | `tidelog spark ingest`: until the table has all, and until the command ends |
| memory | one ingest: the largest memory of the command's Python, of Java, of any other Python |

Each part runs on a cluster of one node. A process of its own is watched from outside, so that its
end and all processes below it count.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from deltalake import DeltaTable

from tidelog.testing import LocalCluster

MASTER = "local[2]"
PARTITIONS = 4
VALUE_BYTES = 100
_LOOK_S = 0.02

_FIRST_ROW = """
import sys
from tidelog.pipeline.spark.spark_session import SHORT_RUN, session

spark = session("bench", sys.argv[2], SHORT_RUN)
topic = spark.read.format("tidelog").option("kafka.bootstrap.servers", sys.argv[1])
print(len(topic.option("subscribe", sys.argv[3]).load().limit(1).collect()), flush=True)
sys.stdin.read()
"""


def fill(
    cluster: LocalCluster, topic: str, records: int, value_bytes: int, partitions: int = PARTITIONS
) -> None:
    """Values that do not compress."""
    cluster.create_topic(topic, partitions=partitions, replication_factor=1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 50})
    with Path("/dev/urandom").open("rb") as noise:
        block = noise.read(value_bytes * 997)
    for index in range(records):
        start = index % 997 * value_bytes
        while True:
            try:
                value = block[start : start + value_bytes]
                producer.produce(topic, value, partition=index % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    assert not producer.flush(300), f"`{topic}` could not be filled"


def first_row(cluster: LocalCluster, topic: str) -> float:
    """Seconds from the start of the process to the row."""
    arguments = cluster.bootstrap_servers, MASTER, topic
    return seconds_to_answer(_FIRST_ROW, "1", *arguments)


def seconds_to_answer(
    script: str, expected: str, *arguments: str, environ: Mapping[str, str] | None = None
) -> float:
    """Seconds from the start of a process to its answer, a line; then waits for the end of its
    Java, which may leave an archive of its classes."""
    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None, "a pipe was asked for"
    answer = process.stdout.readline()
    seconds = time.monotonic() - begun
    assert answer == f"{expected}\n", f"the answer was `{answer}`"
    process.communicate()  # Java holds stdout until it has ended.
    return seconds


def first_batch(cluster: LocalCluster, topic: str, records: int, table: Path) -> dict[str, float]:
    """Seconds from the start of the command until the table has the records, and until its end."""
    begun = time.monotonic()
    process = subprocess.Popen(
        _ingest(cluster, topic, table), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    committed = table / "_delta_log" / f"{1:020}.json"
    while not committed.exists() and process.poll() is None:
        time.sleep(_LOOK_S)
    visible_s = time.monotonic() - begun
    out, errors = process.communicate()
    seconds = time.monotonic() - begun
    assert process.returncode == 0, errors
    assert json.loads(out)["rows"] == records, out
    assert DeltaTable(table).to_pyarrow_dataset().count_rows() == records
    return {"visible_s": round(visible_s, 2), "seconds": round(seconds, 2)}


def _ingest(cluster: LocalCluster, topic: str, table: Path, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "tidelog.cli.main", "spark", "ingest", "--topic", topic),
        *("--table", str(table), "--bootstrap-server", cluster.bootstrap_servers),
        *("--master", "local[2,4]", "--output", "json", *more),
    ]


def ingest_memory(cluster: LocalCluster, topic: str, records: int, table: Path) -> dict[str, Any]:
    """The largest resident memory in MB of each kind of process, and the rate."""
    process = subprocess.Popen(
        _ingest(cluster, topic, table), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with _watched(process.pid) as peak:
        out, errors = process.communicate()
    assert process.returncode == 0, errors
    done = json.loads(out)
    assert done["rows"] == records, done
    return {"records": records, "per_s": round(records / done["seconds"]), **peak}


@contextmanager
def _watched(pid: int) -> Iterator[dict[str, int]]:
    peak = {"driver_mb": 0, "java_mb": 0, "worker_mb": 0}
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.2):
            for kind, size in _sizes(pid):
                peak[kind] = max(peak[kind], size)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def _sizes(top: int) -> Iterator[tuple[str, int]]:
    """Kind and size in MB of the process and of all below it."""
    command = ["ps", "-eo", "pid=,ppid=,rss=,comm="]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 3) for line in listed.splitlines()]
    below = {str(top)}
    for _ in range(6):
        below |= {pid for pid, above, *_ in rows if above in below}
    for pid, _, size, name in rows:
        if pid in below:
            kind = "java_mb" if name == "java" else "worker_mb"
            yield "driver_mb" if pid == str(top) else kind, int(size) // 1024


def waits(place: Path, *, runs: int, records: int, only: Collection[str]) -> dict[str, Any]:
    """The first two parts: the first run, which may write the archive of Java's classes, and the
    medians of the others."""
    found: dict[str, Any] = {}
    with LocalCluster(1, data_dir=place / "c") as cluster:
        fill(cluster, "first", records, VALUE_BYTES)
        parts: dict[str, Callable[[int], dict[str, float]]] = {
            "first-row": lambda _: {"seconds": round(first_row(cluster, "first"), 2)},
            "first-batch": lambda run: first_batch(
                cluster, "first", records, place / f"table-{run}"
            ),
        }
        for name in sorted(set(only) & parts.keys(), reverse=True):
            first, *others = [parts[name](run) for run in range(runs + 1)]
            warm = {one: round(statistics.median(run[one] for run in others), 2) for one in first}
            found[name] = {"first": first, "warm": warm}
    return found


def memories(
    place: Path, counts: Sequence[int], value_bytes: int = VALUE_BYTES, partitions: int = PARTITIONS
) -> list[dict[str, Any]]:
    """An ingest of each number of records."""
    found = []
    for records in counts:
        with (
            tempfile.TemporaryDirectory(dir=place) as own,
            LocalCluster(1, data_dir=Path(own) / "c") as cluster,
        ):
            fill(cluster, "many", records, value_bytes, partitions)
            found.append(ingest_memory(cluster, "many", records, Path(own) / "table"))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parts = ("first-row", "first-batch", "memory")
    parser.add_argument("--only", action="append", choices=parts, help="a part")
    parser.add_argument("--records", type=int, action="append", help="of memory several")
    parser.add_argument("--value-bytes", type=int, default=VALUE_BYTES, help="of memory")
    parser.add_argument("--partitions", type=int, default=PARTITIONS, help="of memory")
    parser.add_argument("--runs", type=int, default=3, help="warm runs; the median counts")
    arguments = parser.parse_args()
    only = arguments.only or parts
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="spark-waits-") as temporary:
        place = Path(temporary)
        if set(only) - {"memory"}:
            records = (arguments.records or [100_000])[0]
            found = waits(place, runs=arguments.runs, records=records, only=only)
        if "memory" in only:
            counts = arguments.records or [1_000_000, 10_000_000]
            found["memory"] = memories(place, counts, arguments.value_bytes, arguments.partitions)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())

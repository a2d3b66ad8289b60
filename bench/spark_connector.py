"""Our topic source beside Spark's official connector: same nodes, same records, same question.

    python -m bench.spark_connector [--runs 5] [--only typed] [--json FILE]

The question is how many records there are and how long their values are in all, asked of two
topics, with 100-byte and with 1 KiB values. Each side has a Spark session of its own on two
cores; the first run of a session is given apart (cold), the others are given by their median
(warm). The sides take turns run by run, so that what else the machine does hits both.

The part `typed` is an ingest: a million JSON objects of ten fields become rows of a Delta table
with a column for each field, by our ingest, and by the connector, `from_json` and Delta's writer.

The connector's Spark is older, because its jars are (`docs/reference/clients.md`). Ours is asked
for the column `value` alone, which is how its users count; the connector prunes columns by itself.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.spark_upsert import FIELDS, feed_changes
from confluent_kafka import Producer
from tests.interop.connector import Connector
from tests.interop.prepare import main as prepare

from tidelog.pipeline.jobs.ingest import ingest
from tidelog.pipeline.jobs.ingest_layout import AskedLayout
from tidelog.pipeline.jobs.ingest_plan import IngestPlan
from tidelog.pipeline.jobs.ingest_plan import prepare as prepare_ingest
from tidelog.pipeline.spark.spark_session import session
from tidelog.pipeline.typed.formats import Format
from tidelog.pipeline.typed.schema_text import parse_schema
from tidelog.testing import LocalCluster

PARTITIONS = 6
LOADS = {"100 B": (100, 1_000_000), "1 KiB": (1024, 200_000)}
START_TIMEOUT_S = 120
PARTS = "values", "typed"

Answer = tuple[int, int]
"""Records, and bytes of their values."""


def fill(cluster: LocalCluster, topic: str, size: int, count: int) -> None:
    """A topic of `count` records with values of `size` bytes that do not compress."""
    cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 20})
    block = Path("/dev/urandom").open("rb").read(size * 997)  # noqa: SIM115
    for index in range(count):
        start = index % 997 * size
        while True:
            try:
                producer.produce(topic, block[start : start + size], partition=index % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(START_TIMEOUT_S) == 0, f"`{topic}` could not be filled"


def timed(ask: Callable[[], Answer], expected: Answer) -> float:
    """Seconds until the right answer."""
    begun = time.monotonic()
    answer = ask()
    seconds = time.monotonic() - begun
    assert answer == expected, f"{answer} instead of {expected}"
    return seconds


def figures(seconds: list[float], records: int, size: int) -> dict[str, float]:
    """Cold, warm, and warm as rates."""
    warm = statistics.median(seconds[1:])
    return {
        "cold_s": round(seconds[0], 2),
        "warm_s": round(warm, 2),
        "records_per_s": round(records / warm),
        "mb_per_s": round(records * size / warm / 1e6, 1),
    }


def measure(runs: int) -> dict[str, dict[str, dict[str, float]]]:
    """The figures by load and side."""
    with (
        tempfile.TemporaryDirectory() as directory,
        LocalCluster(brokers=3, profile="default") as cluster,
        Connector(Path(directory) / "connector") as connector,
    ):
        ours = session("bench", "local[2]")
        found = {}
        for name, (size, records) in LOADS.items():
            topic = f"values-{size}"
            fill(cluster, topic, size, records)
            expected = (records, records * size)
            options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic}

            def ask_theirs(options: dict[str, str] = options) -> Answer:
                answer = connector.do("sums", options=options)
                return answer["rows"], answer["bytes"]

            def ask_ours(options: dict[str, str] = options) -> Answer:
                frame = ours.read.format("tidelog").schema("value binary").options(**options).load()
                row = frame.selectExpr("count(*)", "sum(length(value))").collect()[0]
                return int(row[0]), int(row[1])

            seconds: dict[str, list[float]] = {"connector": [], "tidelog": []}
            for _ in range(runs + 1):
                seconds["connector"].append(timed(ask_theirs, expected))
                seconds["tidelog"].append(timed(ask_ours, expected))
            found[name] = {side: figures(taken, records, size) for side, taken in seconds.items()}
        ours.stop()
    return found


def measure_typed(runs: int, records: int) -> dict[str, dict[str, float]]:
    """Seconds of the ingests by side; every run fills a table of its own."""
    with (
        tempfile.TemporaryDirectory() as directory,
        LocalCluster(brokers=3, profile="default") as cluster,
        Connector(Path(directory) / "connector") as connector,
    ):
        cluster.create_topic("changes", partitions=4, replication_factor=1)
        feed_changes(cluster.bootstrap_servers, "changes", records, records)
        ours, place = session("bench", "local[2]"), Path(directory)
        layout = AskedLayout(Format.JSON, parse_schema(FIELDS))
        options = {
            "kafka.bootstrap.servers": cluster.bootstrap_servers,
            "subscribe": "changes",
            "startingOffsets": "earliest",
        }
        seconds: dict[str, list[float]] = {"connector": [], "tidelog": []}
        for run in range(runs + 1):
            theirs = {"table": str(place / f"t{run}"), "checkpoint": str(place / f"c{run}")}
            seconds["connector"].append(
                connector.do("ingest", options=options, schema=FIELDS, **theirs)
            )
            assert connector.do("rows_of", table=theirs["table"]) == records
            plan = IngestPlan(cluster.bootstrap_servers, "changes", place / f"o{run}", value=layout)
            done = ingest(ours, prepare_ingest(plan))
            assert done.is_clean and (done.rows, done.quarantined_rows) == (records, 0), done
            seconds["tidelog"].append(done.seconds)
        ours.stop()
    return {
        side: {
            "cold_s": round(taken[0], 2),
            "warm_s": round(statistics.median(taken[1:]), 2),
            "records_per_s": round(records / statistics.median(taken[1:])),
        }
        for side, taken in seconds.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Our topic source beside the official connector")
    parser.add_argument("--only", choices=PARTS, help="a part; both if it is left out")
    parser.add_argument("--records", type=int, default=1_000_000, help="of the part `typed`")
    parser.add_argument("--runs", type=int, default=5, help="warm runs; the median counts")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    arguments = parser.parse_args()
    if prepare() != 0:
        raise SystemExit(2)
    wanted = PARTS if arguments.only is None else (arguments.only,)
    found = measure(arguments.runs) if "values" in wanted else {}
    if "typed" in wanted:
        found["typed"] = measure_typed(arguments.runs, arguments.records)
    print(f"{'values':8} {'side':10} {'cold s':>8} {'warm s':>8} {'records/s':>12} {'MB/s':>8}")
    for load, sides in found.items():
        for side, row in sides.items():
            print(
                f"{load:8} {side:10} {row['cold_s']:8.2f} {row['warm_s']:8.2f} "
                f"{row['records_per_s']:12,.0f} {row.get('mb_per_s', ''):>8}"
            )
        ratio = sides["tidelog"]["records_per_s"] / sides["connector"]["records_per_s"]
        print(f"{load:8} ratio      {ratio:.1f}")
    text = json.dumps(found)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()

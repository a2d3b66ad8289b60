"""How long a streaming batch takes from the topic to the Delta table, and how old its records are.

    python -m bench.spark_ingest --batches 60

A producer sends a steady stream; the ingest runs batch after batch without a pause. Two figures:

- *batch*: what Spark calls `triggerExecution`, from asking the brokers for their ends to the noted
  commit; the first batches of a run are warm-up and left out;
- *age*: from a record's timestamp to the Delta commit that made it visible. It contains the wait
  for the batch before, so it is about one and a half batches.
"""

import argparse
import json
import statistics
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from deltalake import DeltaTable

from tidelog.pipeline.jobs.ingest import Progress, ingest
from tidelog.pipeline.jobs.ingest_plan import IngestPlan, prepare
from tidelog.testing import LocalCluster

WARM_UP = 10


def batch_latency(
    spark: Any,
    cluster: LocalCluster,
    directory: Path,
    *,
    batches: int = 60,
    records_per_s: int = 1000,
    topic: str = "latency",
    replicas: int = 3,
) -> dict[str, Any]:
    """p50 and p99 in ms of `batch_ms` and `age_ms`; makes the topic and the table."""
    cluster.create_topic(topic, partitions=3, replication_factor=replicas)
    prepared = prepare(
        IngestPlan(cluster.bootstrap_servers, topic, directory / "table", interval_s=0.0)
    )
    took: dict[int, int] = {}

    def look(_: Progress) -> None:
        for query in spark.streams.active:
            for report in query.recentProgress:
                if report["numInputRows"]:
                    took[report["batchId"]] = report["durationMs"]["triggerExecution"]

    def is_over() -> bool:
        return len(took) >= batches + WARM_UP

    stop = threading.Event()
    feeder = threading.Thread(
        target=_feed, args=(cluster.bootstrap_servers, topic, records_per_s, stop), daemon=True
    )
    feeder.start()
    try:
        result = ingest(spark, prepared, look, is_over)
    finally:
        stop.set()
        feeder.join()
    assert result.is_clean, result.violations
    return {
        "batches": len(took) - WARM_UP,
        "records_per_s": records_per_s,
        "batch_ms": _spread([took[number] for number in sorted(took)][WARM_UP:]),
        "age_ms": _spread(_ages(directory / "table", WARM_UP)),
    }


def _feed(bootstrap: str, topic: str, records_per_s: int, stop: threading.Event) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5})
    while not stop.wait(0.02):
        for _ in range(max(1, records_per_s // 50)):
            producer.produce(topic, b"x" * 100)
        producer.poll(0)
    producer.flush(30)


def _ages(table: Path, warm_up: int) -> list[int]:
    """The age in ms of the oldest record of each batch when it became visible."""
    delta = DeltaTable(str(table))
    rows = delta.to_pyarrow_table(columns=["ingest_batch", "timestamp"])
    oldest = rows.group_by("ingest_batch").aggregate([("timestamp", "min")])
    born = dict(
        zip(
            oldest.column("ingest_batch").to_pylist(),
            pc.divide(oldest.column("timestamp_min").cast("int64"), 1000).to_pylist(),
            strict=True,
        )
    )
    ages = {}
    for version in range(delta.version() + 1):
        lines = (table / "_delta_log" / f"{version:020}.json").read_text().splitlines()
        for info in (json.loads(line).get("commitInfo", {}) for line in lines):
            batch = info.get("tidelog", {}).get("batch")
            if batch in born:
                ages[batch] = info["timestamp"] - born[batch]
    return [ages[batch] for batch in sorted(ages)][warm_up:]


def _spread(values: Sequence[int]) -> dict[str, int]:
    ordered = sorted(values)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return {"p50": round(statistics.median(ordered)), "p99": p99, "max": ordered[-1]}


def main() -> int:
    """Measures on a cluster of its own."""
    from tidelog.pipeline.spark.spark_session import session

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--records-per-s", type=int, default=1000)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--base-port", type=int)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spark-ingest-") as temporary:
        directory = Path(temporary)
        with LocalCluster(3, data_dir=directory / "c", base_port=arguments.base_port) as cluster:
            spark = session("bench", arguments.master)
            found = batch_latency(
                spark,
                cluster,
                directory,
                batches=arguments.batches,
                records_per_s=arguments.records_per_s,
            )
            spark.stop()
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())

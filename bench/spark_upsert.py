"""How fast changes become rows and JSON becomes columns, beside the plain ingest.

    python -m bench.spark_upsert --changes 1000000 --keys 100000

Each part is one run of an ingest in a warm session, from the start of its query to its end. Values
are JSON objects of ten fields.

- *append*: the changes as records of a table that has none;
- *typed*: the same, with a column for each field;
- *new*: folded into a table that has no rows;
- *again*: as many changes once more, over the rows of *new*.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tidelog.env.prng import Prng
from tidelog.pipeline.jobs.ingest import ingest
from tidelog.pipeline.jobs.ingest_layout import AskedLayout
from tidelog.pipeline.jobs.ingest_plan import IngestPlan, prepare
from tidelog.pipeline.tables.upserts import Upsert
from tidelog.pipeline.typed.formats import Format
from tidelog.pipeline.typed.schema_text import parse_schema
from tidelog.testing import LocalCluster

TOMBSTONES = 50
"""One of so many changes is one."""
FIELDS = (
    "id bigint, customer string, region string, at timestamp, amount double, n int,"
    " paid boolean, sku string, note string, price decimal(9,2)"
)
_VALUE = (
    '{"id": %d, "customer": "customer-%d", "region": "north", "at": "2026-11-23T10:00:00Z", '
    '"amount": %d.5, "n": 3, "paid": true, "sku": "a-17", "note": "by post", "price": "12.50"}'
)


def upsert_rates(
    spark: Any, cluster: LocalCluster, directory: Path, *, changes: int, keys: int
) -> dict[str, Any]:
    """Seconds, and changes a second, of each part; makes a topic and tables."""
    for topic in ("warm", "changes"):
        cluster.create_topic(topic, partitions=4, replication_factor=1)

    def run(topic: str, table: str, **how: Any) -> dict[str, Any]:
        place = cluster.bootstrap_servers, topic, directory / table
        done = ingest(spark, prepare(IngestPlan(*place, **how)))
        assert done.is_clean and done.rows and not done.quarantined_rows, done
        rate = round(done.rows / done.seconds)
        return {"changes": done.rows, "seconds": done.seconds, "per_s": rate}

    feed_changes(cluster.bootstrap_servers, "warm", 20_000, keys)
    typed = {"value": AskedLayout(Format.JSON, parse_schema(FIELDS))}
    upsert = {"upsert": Upsert()}
    for table, how in (("append", {}), ("typed", typed), ("upsert", upsert)):
        run("warm", f"warm-{table}", **how)
    feed_changes(cluster.bootstrap_servers, "changes", changes, keys)
    found = {
        "append": run("changes", "append"),
        "typed": run("changes", "typed", **typed),
        "new": run("changes", "upsert", **upsert),
    }
    feed_changes(cluster.bootstrap_servers, "changes", changes, keys)
    return {**found, "again": run("changes", "upsert", **upsert)}


def feed_changes(bootstrap: str, topic: str, changes: int, keys: int) -> None:
    """JSON objects of ten fields; one of `TOMBSTONES` is none."""
    from confluent_kafka import Producer

    prng = Prng(7)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": changes}
    )
    for number in range(changes):
        value = None if number % TOMBSTONES == 0 else (_VALUE % (number, number, number)).encode()
        producer.produce(topic, value, key=b"key-%07d" % prng.below(keys))
        if number % 10_000 == 0:
            producer.poll(0)
    assert not producer.flush(300)


def main() -> int:
    """Measures on a cluster of its own."""
    from tidelog.pipeline.spark.spark_session import session

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--base-port", type=int)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spark-upsert-") as temporary:
        place = Path(temporary)
        with LocalCluster(1, data_dir=place / "c", base_port=arguments.base_port) as cluster:
            spark = session("bench", arguments.master)
            size = {"changes": arguments.changes, "keys": arguments.keys}
            found = upsert_rates(spark, cluster, place, **size)
            spark.stop()
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())

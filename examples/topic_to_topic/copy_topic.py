"""A topic into another through Spark: each record once, whatever is killed meanwhile.

Use: python copy_topic.py BOOTSTRAP_SERVERS FROM TO CHECKPOINT

Runs until it is interrupted; the same command goes on where it was. The records of a task are one
transaction, in which the sink notes the batch, so a batch that Spark repeats is not written again.
Who reads the copy says `read_committed`. How far it is shows as the consumer group `copy-of-FROM`.
"""

import sys
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tidelog.pipeline import session


def copy(
    spark: SparkSession,
    servers: str,
    source: str,
    target: str,
    checkpoint: str,
    trigger: Mapping[str, Any],
) -> StreamingQuery:
    """A running query. Values get the place of their record in front: `PARTITION OFFSET VALUE`."""
    records = (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("isolation.level", "read_committed")
        .option("kafka.group.id", f"copy-of-{source}")
        .load()
    )
    placed = records.selectExpr(
        "key", "concat_ws(' ', partition, offset, CAST(value AS STRING)) value"
    )
    return (
        placed.writeStream.format("tidelog")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", target)
        .option("deliveryGuarantee", "exactly-once")
        .option("checkpointLocation", checkpoint)
        .trigger(**trigger)
        .start()
    )


if __name__ == "__main__":
    # A task whose worker dies is tried again, which plain `local[*]` would not do.
    running = session("copy", "local[*,4]")
    copy(running, *sys.argv[1:], {"processingTime": "1 second"}).awaitTermination()

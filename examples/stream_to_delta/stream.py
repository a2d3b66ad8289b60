"""Streams a topic into a Delta table, each record exactly once, without a jar.

Use: python stream.py BOOTSTRAP_SERVERS TOPIC TABLE

Spark repeats a batch when it does not know whether the batch was written. So each commit of the
table carries the number of its batch, and a batch that the table has is skipped. For lineage,
accounts of every offset, compaction and several writers there is `tidelog spark ingest`.
"""

import sys

from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import DataFrame, SparkSession

from tidelog.pipeline import session

APP = "stream-to-delta"


def stream(spark: SparkSession, bootstrap_servers: str, topic: str, table: str) -> None:
    """Writes what the topic has now and the table lacks."""

    def write(batch: DataFrame, number: int) -> None:
        if DeltaTable.is_deltatable(table):
            last = DeltaTable(table).transaction_version(APP)
            if last is not None and last >= number:
                return
        write_deltalake(
            table,
            batch.toArrow(),
            mode="append",
            commit_properties=CommitProperties(app_transactions=[Transaction(APP, number)]),
        )

    records = (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr(
            "partition",
            "offset",
            "timestamp",
            "CAST(key AS STRING) key",
            "CAST(value AS STRING) value",
        )
    )
    (
        records.writeStream.foreachBatch(write)
        .option("checkpointLocation", f"{table}-checkpoint")
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )


if __name__ == "__main__":
    stream(session("stream to delta"), *sys.argv[1:])
    print(DeltaTable(sys.argv[3]).to_pyarrow_table().num_rows, "rows in the table")

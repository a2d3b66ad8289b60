"""Spark with its official Kafka connector, driven by lines of JSON; see `connector`.

Runs in a virtual environment with an older pyspark and nothing else, so it imports nothing of the
project. A line in is `{"do": NAME, …arguments}`, a line out is `{"result": …}` or `{"error": …}`.
What Spark itself prints goes to stderr.
"""

import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

Options = Mapping[str, str]

COUNTS = (
    "count(*) rows",
    "count(DISTINCT topic, partition, offset) distinct",
    "coalesce(sum(length(value)), 0) bytes",
)


class Worker:
    """One Spark session and the streams that run on it."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        # The running and ended queries by name.
        self._streams: dict[str, Any] = {}

    def rows(self, options: Options, columns: list[str]) -> list[dict[str, Any]]:
        """What a batch read gives, as SQL expressions, in order of partition and offset."""
        frame = self._read(options).orderBy("partition", "offset").selectExpr(*columns)
        return [row.asDict(recursive=True) for row in frame.collect()]

    def counts(self, options: Options) -> dict[str, int]:
        """How much a batch read gives."""
        return self._counted(self._read(options))

    def sums(self, options: Options) -> dict[str, int]:
        """How many records there are and how long their values are, and nothing else."""
        row = self._read(options).selectExpr("count(*) rows", "sum(length(value)) bytes").first()
        return {name: int(count) for name, count in row.asDict().items()}

    def write(self, rows: list[list[Any]], schema: str, options: Options) -> None:
        """A batch write."""
        self._spark.createDataFrame([tuple(row) for row in rows], schema).write.format(
            "kafka"
        ).options(**options).save()

    def start(self, name: str, options: Options, trigger: Mapping[str, Any]) -> None:
        """Begins a stream into the memory table `name`."""
        self._streams[name] = (
            self._spark.readStream.format("kafka")
            .options(**options)
            .load()
            .writeStream.format("memory")
            .queryName(name)
            .trigger(**trigger)
            .start()
        )

    def copy(self, name: str, options: Options, sink: Options, trigger: Mapping[str, Any]) -> None:
        """Begins a stream from one topic into another."""
        self._streams[name] = (
            self._spark.readStream.format("kafka")
            .options(**options)
            .load()
            .writeStream.format("kafka")
            .options(**sink)
            .trigger(**trigger)
            .start()
        )

    def ingest(self, options: Options, schema: str, table: str, checkpoint: str) -> float:
        """A topic of JSON into a Delta table, with the record's place; seconds of the query."""
        frame = self._spark.readStream.format("kafka").options(**options).load()
        typed = frame.selectExpr(
            *("topic", "partition", "offset", "timestamp", "key"),
            f"from_json(string(value), '{schema}') AS value",
        )
        begun = time.monotonic()
        writer = typed.writeStream.format("delta").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start(table).awaitTermination()
        return time.monotonic() - begun

    def rows_of(self, table: str) -> int:
        """How many rows a Delta table has."""
        return int(self._spark.read.format("delta").load(table).count())

    def look(self, name: str) -> dict[str, Any]:
        """What a stream has brought so far, and the error that ended it."""
        query = self._streams[name]
        failure = query.exception()
        counts = self._counted(self._spark.table(name)) if query.name else {}
        return {
            **counts,
            "active": query.isActive,
            "failure": None if failure is None else str(failure),
        }

    def stop(self, name: str) -> None:
        """Ends a stream."""
        self._streams[name].stop()

    def _read(self, options: Options) -> DataFrame:
        return self._spark.read.format("kafka").options(**options).load()

    def _counted(self, frame: DataFrame) -> dict[str, int]:
        row = frame.selectExpr(*COUNTS).collect()[0]
        return {name: int(count) for name, count in row.asDict().items()}


def main(jars: list[str]) -> None:
    """Serves until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = (
        SparkSession.builder.appName("interop")
        .master("local[2]")
        .config("spark.jars", ",".join(jars))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config(
            "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
        .getOrCreate()
    )
    worker = Worker(spark)
    print(json.dumps({"result": "ready"}), file=answers, flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = {"result": getattr(worker, command.pop("do"))(**command)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer, default=str), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])

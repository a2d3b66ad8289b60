"""Windows, joins, deduplication and state over topics, in Structured Streaming.

Use: python queries.py BOOTSTRAP_SERVERS CHECKPOINTS

Each query is a function from DataFrames to a DataFrame, so that it runs over a topic as a stream
and as a batch, with the same result: `tests/examples` compares them. Values are JSON:

    orders      {"id": "o1", "customer": "ada", "amount": 5, "at": "2026-11-23T10:00:00Z"}
    payments    {"order_id": "o1", "paid_at": "2026-11-23T10:01:00Z"}
    customers   {"name": "ada", "region": "north"}      the newest record of a name holds
"""

import sys
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from tidelog.pipeline import session

ORDER = "id string, customer string, amount bigint, at timestamp"
PAYMENT = "order_id string, paid_at timestamp"
CUSTOMER = "name string, region string"
STATE_IN_ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
"""`transformWithState` needs it."""


def records(reader: Any, servers: str, topic: str, schema: str) -> DataFrame:
    """A topic's values with their fields, and the offset. `reader` is `spark.read` or
    `spark.readStream`; records of aborted transactions are left out."""
    found = (
        reader.format("tidelog")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("isolation.level", "read_committed")
        .load()
    )
    value = F.from_json(F.col("value").cast("string"), schema).alias("value")
    return found.select("offset", value).select("offset", "value.*")


def by_minute(orders: DataFrame) -> DataFrame:
    """Orders and amounts of each minute. A minute is final when an order two minutes younger than
    its end was read; orders that are later than that are left out."""
    return (
        orders.withWatermark("at", "2 minutes")
        .groupBy(F.window("at", "1 minute").alias("minute"))
        .agg(F.count("*").alias("orders"), F.sum("amount").alias("amount"))
        .select("minute.start", "orders", "amount")
    )


def paid_in_time(orders: DataFrame, payments: DataFrame) -> DataFrame:
    """Orders with a payment within five minutes. By the watermarks and the bound Spark knows when
    it may forget one of them."""
    is_in_time = F.expr("order_id = id AND paid_at BETWEEN at AND at + INTERVAL 5 MINUTES")
    return (
        orders.withWatermark("at", "2 minutes")
        .join(payments.withWatermark("paid_at", "2 minutes"), is_in_time)
        .select("id", "at", "paid_at")
    )


def with_region(orders: DataFrame, customers: DataFrame) -> DataFrame:
    """Orders with the region of their customer, as the table of customers has it in this batch."""
    newest = customers.groupBy("name").agg(F.max_by("region", "offset").alias("region"))
    return orders.join(newest, orders["customer"] == newest["name"], "left").select("id", "region")


def once(orders: DataFrame) -> DataFrame:
    """Each order once, although its producer sent it twice."""
    return (
        orders.withWatermark("at", "10 minutes").dropDuplicates(["id", "at"]).select("id", "amount")
    )


def totals(orders: DataFrame) -> DataFrame:
    """What each customer has ordered so far: a row for each customer of each batch."""
    return orders.groupBy("customer").transformWithStateInPandas(
        Totals(), "customer string, amount bigint", "Update", "None"
    )


class Totals(StatefulProcessor):  # type: ignore[misc]
    """Keeps an amount for each customer."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called once in each task."""
        self._amount = handle.getValueState("amount", "amount bigint")

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """Adds the batch's orders of one customer."""
        amount = self._amount.get()[0] if self._amount.exists() else 0
        amount += int(sum(frame["amount"].sum() for frame in rows))
        self._amount.update((amount,))
        yield pd.DataFrame({"customer": [key[0]], "amount": [amount]})

    def close(self) -> None:
        """Nothing is held but the state."""


def streams(spark: SparkSession, servers: str) -> dict[str, tuple[DataFrame, str]]:
    """All queries as streams, with the output mode of each, by name."""

    def stream(topic: str, schema: str) -> DataFrame:
        return records(spark.readStream, servers, topic, schema)

    payments = stream("payments", PAYMENT)
    customers = records(spark.read, servers, "customers", CUSTOMER)
    return {
        "by_minute": (by_minute(stream("orders", ORDER)), "append"),
        "paid_in_time": (paid_in_time(stream("orders", ORDER), payments), "append"),
        "with_region": (with_region(stream("orders", ORDER), customers), "append"),
        "once": (once(stream("orders", ORDER)), "append"),
        "totals": (totals(stream("orders", ORDER)), "update"),
    }


def main(servers: str, checkpoints: str) -> None:
    """Prints what each query finds in what the topics have now, and goes on there the next time."""
    spark = session("streams", conf=STATE_IN_ROCKSDB)
    for name, (frame, mode) in streams(spark, servers).items():
        written = frame.writeStream.format("console").outputMode(mode).queryName(name)
        written = written.option("checkpointLocation", f"{checkpoints}/{name}")
        written.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

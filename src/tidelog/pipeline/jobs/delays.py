"""An example query over the demo's records: how late do flights leave, by carrier and hour?

Mean and 95th percentile of the departure delay by carrier and scheduled hour, with the carrier's
name. A flight that was cancelled has no departure delay and is counted, not averaged.
"""

from typing import Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.pipeline.topics.frames import topic_frame

DELAY_COLUMNS: Final = (
    "carrier", "airline", "hour", "flights", "cancelled", "mean_delay_minutes",
    "p95_delay_minutes",
)  # fmt: skip


def flights(records: DataFrame) -> DataFrame:
    """`carrier, hour, dep_delay` of the JSON values of the topic; null what a value lacks.
    `json_tuple` reads each value once. Fields of a `from_json` struct would be read once each, and
    again for every filter on one of them."""
    fields = F.json_tuple(F.col("value").cast("string"), "carrier", "hour", "dep_delay")
    texts = records.select(fields.alias("carrier", "hour", "dep_delay"))
    return texts.select(
        "carrier",
        F.col("hour").try_cast("int").alias("hour"),
        F.col("dep_delay").try_cast("double").alias("dep_delay"),
    )


def delays_by_carrier_and_hour(flown: DataFrame, airlines: DataFrame) -> DataFrame:
    """`DELAY_COLUMNS`, a row per carrier and hour, ordered by both, in one partition. A global
    `orderBy` would read the topic twice, once to find where to cut."""
    delays = flown.where("carrier is not null and hour is not null")
    summed = delays.groupBy("carrier", "hour").agg(
        F.count("*").alias("flights"),
        F.count_if(F.col("dep_delay").isNull()).alias("cancelled"),
        F.round(F.avg("dep_delay"), 2).alias("mean_delay_minutes"),
        F.round(F.percentile("dep_delay", 0.95), 2).alias("p95_delay_minutes"),
    )
    names = airlines.select("carrier", F.col("name").alias("airline"))
    named = summed.join(F.broadcast(names), "carrier", "left").select(*DELAY_COLUMNS)
    return named.repartition(1).sortWithinPartitions("carrier", "hour")


def write_delays(
    spark: SparkSession,
    *,
    bootstrap_servers: str,
    topic: str,
    airlines_csv: str,
    target: str,
    ending_offsets: str = "latest",
) -> int:
    """Runs the job and writes Parquet to `target`, replacing what is there; returns the rows."""
    records = topic_frame(spark.read, bootstrap_servers, topic, endingOffsets=ending_offsets)
    airlines = spark.read.csv(airlines_csv, header=True, schema="carrier string, name string")
    answer = delays_by_carrier_and_hour(flights(records), airlines)
    answer.write.mode("overwrite").parquet(target)
    rows: int = pq.read_table(target, columns=["carrier"]).num_rows
    return rows

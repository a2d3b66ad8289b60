"""A real question to the same records: how late do whose flights leave, at which hour?

Mean and 95th percentile of the departure delay by carrier and scheduled hour, with the carrier's
name. A flight that was cancelled has no departure delay and is counted, not averaged.
"""

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

FLIGHT_FIELDS: Final = "carrier string, hour int, dep_delay double"
"""What of a flight's JSON matters here."""

DELAY_COLUMNS: Final = (
    "carrier",
    "airline",
    "hour",
    "flights",
    "cancelled",
    "mean_delay_minutes",
    "p95_delay_minutes",
)


def flights(records: DataFrame) -> DataFrame:
    """The JSON values of the topic as columns."""
    parsed = F.from_json(F.col("value").cast("string"), FLIGHT_FIELDS)
    return records.select(parsed.alias("flight")).select("flight.*")


def delays_by_carrier_and_hour(flown: DataFrame, airlines: DataFrame) -> DataFrame:
    """`DELAY_COLUMNS`, a row per carrier and hour, ordered by both."""
    delays = flown.where("carrier is not null and hour is not null")
    summed = delays.groupBy("carrier", "hour").agg(
        F.count("*").alias("flights"),
        F.count_if(F.col("dep_delay").isNull()).alias("cancelled"),
        F.round(F.avg("dep_delay"), 2).alias("mean_delay_minutes"),
        F.round(F.percentile("dep_delay", 0.95), 2).alias("p95_delay_minutes"),
    )
    names = airlines.select("carrier", F.col("name").alias("airline"))
    return (
        summed.join(F.broadcast(names), "carrier", "left")
        .select(*DELAY_COLUMNS)
        .orderBy("carrier", "hour")
    )


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
    records = (
        spark.read.format("tidelog")
        .schema("value binary")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topic)
        .option("endingOffsets", ending_offsets)
        .load()
    )
    airlines = spark.read.csv(airlines_csv, header=True, schema="carrier string, name string")
    answer = delays_by_carrier_and_hour(flights(records), airlines)
    answer.coalesce(1).write.mode("overwrite").parquet(target)
    rows: int = spark.read.parquet(target).count()
    return rows

"""The job behind `spark health`: reads nodes' events, computes every figure, writes the tables.

`measure` runs the transforms of `pipeline/health/transforms.py` and brings their small results to
the driver; commits, of which there are ten a second and partition, stay in Spark and leave as
quantiles, as a thinned line for the report, and as Parquet.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tidelog.env.event import Kind
from tidelog.pipeline.health import transforms as health
from tidelog.pipeline.health.events import EVENTS_TOPIC, parsed
from tidelog.pipeline.health.figures import Health, Rows
from tidelog.pipeline.health.stream import follow
from tidelog.pipeline.health.tracker import STATE_KINDS
from tidelog.pipeline.places import Place, local_path
from tidelog.pipeline.topics.frames import topic_frame

LATENCY_POINTS: Final = 300
"""Into how many slices of time the report cuts the commits."""


def measure(events: DataFrame, *, since: datetime | None = None) -> Health:
    """Every figure of the events, from `since` on. Reads the events many times: cache them."""
    spans = health.intervals(events)
    changes = health.leader_changes(events)
    windows = health.unavailability(changes)
    decided = health.elections(changes)
    committed = health.commits(events)
    recent = events
    if since is not None:
        moment = F.lit(since)
        spans = health.not_over_before(spans, moment)
        windows = health.not_over_before(windows, moment)
        decided = decided.where(F.col("at") >= moment)
        committed = committed.where(F.col("at") >= moment)
        recent = events.where(F.timestamp_micros("ts_us") >= moment)
    span = recent.agg(
        F.count("*").alias("events"),
        F.sort_array(F.collect_set("broker")).alias("brokers"),
        F.timestamp_micros(F.min("ts_us")).alias("first"),
        F.timestamp_micros(F.max("ts_us")).alias("last"),
    )
    (whole,) = _rows(span)
    return Health(
        **whole,
        conditions=_rows(health.by_condition(spans.unionByName(windows)).orderBy("kind")),
        intervals=_rows(spans.orderBy("start", "topic", "partition", "kind")),
        unavailability=_rows(windows.orderBy("start", "topic", "partition")),
        elections=_rows(decided.orderBy("at", "topic", "partition")),
        latency=_rows(health.latency_by_leader(committed).orderBy("leader")),
        followers=_rows(health.followers(recent)),
        flaps=_rows(health.flaps(recent).orderBy(F.desc("left"), "topic", "partition", "replica")),
        timeline=_rows(_timeline(events)),
        latency_line=_rows(_latency_line(committed, whole["first"], whole["last"])),
    )


def _timeline(events: DataFrame) -> DataFrame:
    """The state of each partition after each change; leaders' starts give the state before the
    first."""
    own = F.when(F.col("kind") == Kind.LEADING, F.col("broker"))
    states = events.where(F.col("kind").isin(*STATE_KINDS, Kind.LEADING)).select(
        "topic",
        "partition",
        F.timestamp_micros("ts_us").alias("at"),
        "kind",
        "leader_epoch",
        F.coalesce("payload.leader", own).alias("leader"),
        "payload.isr",
        F.size("payload.replicas").alias("replicas"),
        "payload.min_isr",
        "payload.cause",
    )
    return states.orderBy("topic", "partition", "at")


def _latency_line(committed: DataFrame, first: datetime | None, last: datetime | None) -> DataFrame:
    """p50 and p99 by leader in equal slices of the time between."""
    seconds = (last - first).total_seconds() if first and last else 0.0
    width = max(1.0, seconds / LATENCY_POINTS)
    at = F.col("at").cast("double")
    slices = committed.groupBy("leader", F.floor(at / width).alias("slice")).agg(
        F.timestamp_seconds(F.min(at)).alias("at"),
        F.percentile("latency_ms", 0.5).alias("p50_ms"),
        F.percentile("latency_ms", 0.99).alias("p99_ms"),
    )
    return slices.orderBy("leader", "slice")


def _rows(frame: DataFrame) -> Rows:
    return [row.asDict(recursive=True) for row in frame.collect()]


LATENESS: Final = "10 seconds"
"""How far one node's events may be behind another's on the topic."""


def follow_topic(
    spark: SparkSession, bootstrap_servers: str, show: Callable[[Rows], None]
) -> StreamingQuery:
    """Starts to follow the topic of events from its end on; `show` gets the rows of each batch."""
    records = topic_frame(spark.readStream, bootstrap_servers, EVENTS_TOPIC)

    def on_batch(batch: DataFrame, _: int) -> None:
        show(_rows(batch.orderBy("start_us")))

    rows = follow(parsed(records), LATENESS)
    return rows.writeStream.foreachBatch(on_batch).trigger(processingTime="1 second").start()


def write_tables(events: DataFrame, directory: Place) -> None:
    """The tables as Parquet in `directory`, one subdirectory each, replacing what is there."""
    changes = health.leader_changes(events)
    tables = {
        "intervals": health.intervals(events).unionByName(health.unavailability(changes)),
        "elections": health.elections(changes),
        "commits": health.commits(events),
        "followers": health.followers(events),
        "flaps": health.flaps(events),
    }
    for name, table in tables.items():
        table.coalesce(1).write.mode("overwrite").parquet(str(local_path(directory) / name))

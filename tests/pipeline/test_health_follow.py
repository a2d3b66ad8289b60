"""The streaming form of the health gives the rows of the batch form, in Spark and end to end."""

import json
import os

import pytest
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from tests.pipeline.health_samples import event, sample_events
from tidelog.pipeline.health import transforms as health
from tidelog.pipeline.health.events import EVENT, read_event_files
from tidelog.pipeline.health.stream import STREAM_CONF, follow

pytestmark = pytest.mark.spark

COLUMNS = ("topic", "partition", "kind", "leader_epoch", "start_us", "end_us", "duration_ms",
           "cause", "broker")  # fmt: skip


@pytest.fixture
def with_state_store(spark):
    """The session keeps state as the job's own session does."""
    for name, value in STREAM_CONF.items():
        spark.conf.set(name, value)
    yield
    for name in STREAM_CONF:
        spark.conf.unset(name)


@pytest.fixture
def files(tmp_path):
    """The events of two nodes in files of their own, one after the other; the last two files only
    push the watermark past everything."""
    first = sample_events()
    later = [
        event(9, number, "following", 100_000 * number, partition=7, epoch=0) for number in (1, 2)
    ]
    directory = tmp_path / "events"
    directory.mkdir()
    for number, events in enumerate([first[::2], first[1::2], later[:1], later[1:]]):
        file = directory / f"{number}.json"
        file.write_text("".join(json.dumps(one) + "\n" for one in events))
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    return str(directory)


def followed(spark, files, checkpoint):
    """The last word on each interval: the one with an end, if there is one."""
    stream = spark.readStream.schema(EVENT).option("maxFilesPerTrigger", 1).json(files)
    query = (
        follow(stream, "60 seconds")
        .writeStream.format("memory")
        .queryName("followed")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    last = (
        spark.table("followed")
        .groupBy("topic", "partition", "kind", "start_us")
        .agg(F.max_by(F.struct("*"), F.col("end_us").isNotNull()).alias("row"))
    )
    return last.select("row.*").select(*COLUMNS)


def test_following_ends_where_the_batch_form_ends(spark, with_state_store, files, tmp_path):
    rows = followed(spark, files, str(tmp_path / "checkpoint"))
    events = read_event_files(spark, [files])
    micros = [F.unix_micros(name).alias(f"{name}_us") for name in ("start", "end")]
    intervals = health.intervals(events).select("*", *micros).select(*COLUMNS)
    assertDataFrameEqual(rows.where("kind not in ('election', 'commit')"), intervals)
    assertDataFrameEqual(
        rows.where("kind = 'commit'").select("leader_epoch", "start_us", "duration_ms"),
        health.commits(events).select(
            "leader_epoch",
            F.unix_micros("at").alias("start_us"),
            F.col("latency_ms").alias("duration_ms"),
        ),
    )
    decided = health.elections(health.leader_changes(events)).where("election_ms is not null")
    assertDataFrameEqual(
        rows.where("kind = 'election'").select("partition", "leader_epoch", "duration_ms"),
        decided.select("partition", "leader_epoch", F.col("election_ms").alias("duration_ms")),
    )

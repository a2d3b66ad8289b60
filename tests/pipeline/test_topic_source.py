"""`format("tidelog")` against a running cluster: all columns, offsets, ranges, a lost leader."""

import time

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from pyspark_tidelog import DefaultSource
from tidelog.pipeline.spark_columns import PLAN_TYPES, ddl

pytestmark = [pytest.mark.spark, pytest.mark.process]

COUNT = 5_000


@pytest.fixture(scope="module")
def topic(cluster):
    """A topic of three partitions, 5,000 records a codec."""
    # The records are older than the default retention, which would delete them between two tests.
    cluster.create_topic(
        "codecs", partitions=3, replication_factor=3, configs={"retention.ms": "-1"}
    )
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "acks": "all",
                "compression.type": codec,
                "linger.ms": 20,
            }
        )
        for index in range(COUNT):
            producer.produce(
                "codecs",
                None if index % 10 == 0 else b"%s-%d" % (codec.encode(), index),
                key=None if index % 7 == 0 else b"k%d" % index,
                partition=index % 3,
                headers=[("codec", codec.encode()), ("empty", None)],
                timestamp=1_700_000_000_000 + index,
            )
            producer.poll(0)
        assert producer.flush(60) == 0
    return "codecs"


def read(spark, cluster, topic, **options):
    reader = spark.read.format("tidelog").option(
        "kafka.bootstrap.servers", cluster.bootstrap_servers
    )
    for name, value in {"subscribe": topic, **options}.items():
        reader = reader.option(name, value)
    return reader.load()


def test_every_record_is_read_once_with_all_its_columns(spark, cluster, topic):
    frame = read(spark, cluster, topic)
    assert frame.columns == [
        "topic",
        "partition",
        "offset",
        "leader_epoch",
        "timestamp",
        "timestamp_type",
        "key",
        "value",
        "headers",
    ]
    sums = frame.selectExpr(
        "count(*) as n",
        "count(distinct partition, offset) as places",
        "count_if(value is null) as nulls",
        "count_if(key is null) as keyless",
        "max(leader_epoch) as epoch",
        "count_if(headers[0].key = 'codec' and headers[1].value is null) as headed",
    ).first()
    assert sums["n"] == sums["places"] == sums["headed"] == 5 * COUNT
    assert sums["nulls"] == 5 * (COUNT // 10)
    assert sums["keyless"] == 5 * len(range(0, COUNT, 7))
    assert sums["epoch"] >= 0
    row = frame.where("cast(value as string) = 'zstd-1234'").first()
    assert (row["partition"], bytes(row["key"])) == (1234 % 3, b"k1234")
    assert row["timestamp"].timestamp() == pytest.approx(1_700_000_001.234)
    assert bytes(row["headers"][0]["value"]) == b"zstd"


def test_offsets_bound_what_is_read(spark, cluster, topic):
    frame = read(
        spark,
        cluster,
        topic,
        startingOffsets='{"codecs": {"0": 10, "1": -2, "2": 100}}',
        endingOffsets='{"codecs": {"0": 20, "1": 5, "2": 100}}',
    )
    rows = frame.groupBy("partition").agg({"offset": "min", "*": "count"}).collect()
    found = {row["partition"]: (row["min(offset)"], row["count(1)"]) for row in rows}
    assert found == {0: (10, 10), 1: (0, 5)}


def test_more_partitions_read_the_same(spark, cluster, topic):
    frame = read(spark, cluster, topic, minPartitions="8")
    assert frame.rdd.getNumPartitions() >= 8
    assert frame.count() == 5 * COUNT


def test_a_killed_leader_does_not_stop_a_reader(spark, cluster, topic):
    frame = read(spark, cluster, topic)
    leader = cluster.wait_for_leader(topic, 0)
    cluster.kill(leader)
    try:
        assert frame.count() == 5 * COUNT
    finally:
        cluster.start_node(leader)
        cluster.wait_until_ready()


def test_a_leader_that_moves_between_plan_and_read_does_not_matter(cluster, topic):
    """Spark plans in one process and reads in another, maybe minutes later."""
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": topic,
        "columns": "partition,offset",
    }
    schema = StructType().add("partition", "integer").add("offset", "long")
    reader = DefaultSource(options).reader(schema)
    planned = reader.partitions()
    leader = cluster.wait_for_leader(topic, 0)
    cluster.kill(leader)
    try:
        cluster.wait_for_leader(topic, 0, exclude=(leader,))
        batches = [batch for partition in planned for batch in reader.read(partition)]
    finally:
        cluster.start_node(leader)
        cluster.wait_until_ready()
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert len(rows) == len(set(rows)) == 5 * COUNT


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "nowhere"}, "nowhere"),
        ({"startingOffsets": "yesterday"}, "yesterday"),
        ({"startingOffset": "earliest"}, "startingOffset"),
        ({"startingOffsets": '{"codecs": {"0": 99999999, "1": 0, "2": 0}}'}, "99999999"),
    ],
)
def test_wrong_options_are_one_clear_error(spark, cluster, topic, options, message):
    started = time.monotonic()
    with pytest.raises(PySparkException, match=message):
        read(spark, cluster, topic, **options).count()
    assert time.monotonic() - started < 60


def test_a_query_for_the_plan_gets_ranges_in_the_place_of_records(spark, cluster, topic):
    reader = spark.read.format("tidelog").schema(ddl(PLAN_TYPES))
    reader = reader.option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    rows = reader.option("subscribe", topic).option("minPartitions", "6").load().collect()
    lengths = {}
    for row in rows:
        covered = row["end_offset"] - row["start_offset"]
        lengths[row["partition"]] = lengths.get(row["partition"], 0) + covered
    assert len(rows) >= 6 and len({bytes(row["topic_id"]) for row in rows}) == 1
    assert sum(lengths.values()) == 5 * COUNT and sorted(lengths) == [0, 1, 2]

"""`df.write.format("tidelog")` and `writeStream.format("tidelog")` on three nodes of ours.

`tests/interop` has more of exactly-once, against Apache Kafka.
"""

import uuid

import pytest
from pyspark.errors import PySparkException

from tidelog.testing import LocalCluster

pytestmark = pytest.mark.spark


@pytest.fixture
def topic(cluster: LocalCluster, request) -> str:
    """A topic of the test's own, with two partitions."""
    name = f"sink-{request.node.name.replace('_', '-')[:60]}"
    cluster.create_topic(name, partitions=2, replication_factor=3)
    return name


def write(frame, cluster: LocalCluster, **options: str) -> None:
    (
        frame.write.format("tidelog")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .options(**options)
        .mode("append")
        .save()
    )


def records(spark, cluster: LocalCluster, topic: str):
    return (
        spark.read.format("tidelog")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("subscribe", topic)
        .load()
    )


def test_rows_become_records_with_key_headers_and_partition(spark, cluster, topic):
    headers = [("h", b"1"), ("n", None)]
    frame = spark.createDataFrame(
        [("a", "1", 0, headers), (None, "2", 1, None), ("c", None, 1, [])],
        "key string, value string, partition int, headers array<struct<key:string,value:binary>>",
    )
    write(frame, cluster, topic=topic)
    found = records(spark, cluster, topic).orderBy("partition", "value", ascending=False)
    rows = [tuple(row) for row in found.select("partition", "key", "value").collect()]
    assert [(p, key and bytes(key), value and bytes(value)) for p, key, value in rows] == [
        (1, None, b"2"),
        (1, b"c", None),
        (0, b"a", b"1"),
    ]
    written = [row["headers"] for row in found.collect()]
    assert [[(h["key"], h["value"]) for h in of] for of in written if of] == [headers]


def test_a_stream_is_copied_as_a_source_gave_it(spark, cluster, topic, tmp_path):
    """All of the source's columns, of which the sink takes those that it writes."""
    write(spark.range(0, 1000).selectExpr("CAST(id AS STRING) value"), cluster, topic=topic)
    copy = f"{topic}-copy"
    cluster.create_topic(copy, partitions=2, replication_factor=3)
    query = (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .writeStream.format("tidelog")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("topic", copy)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    places = [
        {(row[0], int(bytes(row[1]))) for row in frame.select("partition", "value").collect()}
        for frame in (records(spark, cluster, topic), records(spark, cluster, copy))
    ]
    assert places[0] == places[1]
    assert {number for _, number in places[1]} == set(range(1000))
    assert records(spark, cluster, copy).count() == 1000


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("'v' value", {"topic": "no-such-topic"}, "topic `no-such-topic` does not exist"),
        ("'k' key", {"topic": "any"}, "there is no column `value` among `key`"),
        ("'v' value", {}, "no topic is given"),
        ("'v' value, CAST(NULL AS STRING) topic", {}, "row 0 of a task has no topic"),
    ],
    ids=["unknown-topic", "no-value", "no-topic", "row-without-topic"],
)
def test_what_cannot_be_written_is_one_clear_error(spark, cluster, columns, options, message):
    frame = spark.range(1).coalesce(1).selectExpr(*columns.split(", "))
    with pytest.raises(PySparkException) as caught:
        write(frame, cluster, **options)
    assert message in str(caught.value)
    assert "hint: " in str(caught.value)


def test_a_write_that_is_repeated_is_there_once(spark, cluster, topic):
    """In transactions of our own brokers: by the id of the write, and not of its attempt."""
    frame = spark.range(300).repartition(2).selectExpr("CAST(id AS STRING) value")
    for write_id in ("first", "first", "second"):
        write(frame, cluster, topic=topic, deliveryGuarantee="exactly-once", writeId=write_id)
    found = records(spark, cluster, topic).groupBy("value").count().collect()
    assert len(found) == 300 and {row["count"] for row in found} == {2}


def test_asking_for_a_topic_does_not_create_it(spark, cluster):
    frame = spark.range(1).coalesce(1).selectExpr("'v' value")
    for _ in range(2):
        with pytest.raises(PySparkException, match="does not exist"):
            write(frame, cluster, topic="asked-for-twice")
        cluster.create_topic(f"fence-{uuid.uuid4().hex}", partitions=1, replication_factor=3)


def test_refused_records_name_topic_partition_and_cause(spark, cluster, topic):
    large = spark.range(1).selectExpr("repeat('x', 2000000) value", "1 partition")
    missing = spark.range(1).selectExpr("'v' value", "7 partition")
    with pytest.raises(PySparkException) as caught:
        write(large, cluster, topic=topic)
    assert f"`{topic}-1`" in str(caught.value)
    assert "MSG_SIZE_TOO_LARGE" in str(caught.value)
    assert "hint: raise `kafka.message.max.bytes`" in str(caught.value)
    with pytest.raises(PySparkException) as caught:
        write(missing, cluster, topic=topic)
    assert f"`{topic}-7`" in str(caught.value)
    assert "the topic has fewer" in str(caught.value)

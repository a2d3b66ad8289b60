"""The topic sink's transactions, against Apache Kafka 4.3.1.

The tasks are run as Spark runs them, twice where Spark would repeat them, and with Spark once; a
reader that is not Spark looks at what is committed.
"""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from pyspark.sql import SparkSession

from tests.interop.kafka_node import KafkaNode
from tidelog.errors import UsageError
from tidelog.pipeline.sink.commits import COMMITS_TOPIC, Task, write_once
from tidelog.pipeline.sink.options import SinkOptions, parse_sink_options
from tidelog.pipeline.spark.spark_session import SHORT_RUN, session

READ_TIMEOUT_S = 60


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    running = session("sink", "local[2]", {**SHORT_RUN, "spark.sql.shuffle.partitions": "2"})
    yield running
    running.stop()


def create(kafka: KafkaNode, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(READ_TIMEOUT_S)


def exactly_once(bootstrap_servers: str, topic: str) -> SinkOptions:
    return parse_sink_options(
        {
            "kafka.bootstrap.servers": bootstrap_servers,
            "topic": topic,
            "deliveryGuarantee": "exactly-once",
        },
        streaming=True,
    )


def rows(first: int, count: int) -> Iterator[pa.RecordBatch]:
    values = [b"%d" % number for number in range(first, first + count)]
    yield pa.record_batch({"key": pa.array(values), "value": pa.array(values)})


def committed(kafka: KafkaNode, topic: str) -> list[int]:
    """The values that a reader of committed records sees, sorted."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(2)])
        values, ended = [], 0
        while ended < 2:
            message = consumer.poll(READ_TIMEOUT_S)
            assert message is not None, f"nothing of `{topic}` within {READ_TIMEOUT_S} s"
            if message.error() is None:
                values.append(int(message.value()))
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended += 1
        return sorted(values)
    finally:
        consumer.close()


def test_a_repeated_task_writes_nothing(kafka: KafkaNode):
    create(kafka, "repeated")
    options = exactly_once(kafka.bootstrap_servers, "repeated")
    for batch in (0, 1, 1):
        assert write_once(rows(100 * batch, 100), options, Task("q1", batch, 0)) == 100
    write_once(rows(200, 100), options, Task("q1", 1, 1))
    assert committed(kafka, "repeated") == list(range(300))


def test_a_task_that_died_leaves_nothing(kafka: KafkaNode):
    """The rows of an attempt that failed half-way are not seen; the next attempt's are, once."""
    create(kafka, "died")
    options = exactly_once(kafka.bootstrap_servers, "died")

    def dies() -> Iterator[pa.RecordBatch]:
        yield from rows(0, 100)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_once(dies(), options, Task("q2", 0, 0))
    assert committed(kafka, "died") == []
    write_once(rows(0, 100), options, Task("q2", 0, 0))
    assert committed(kafka, "died") == list(range(100))


def test_a_batch_that_was_divided_differently_is_refused(kafka: KafkaNode):
    create(kafka, "divided")
    options = exactly_once(kafka.bootstrap_servers, "divided")
    write_once(rows(0, 100), options, Task("q3", 4, 0))
    with pytest.raises(UsageError, match="was written with 100 rows and is repeated with 50"):
        write_once(rows(0, 50), options, Task("q3", 4, 0))
    with pytest.raises(UsageError, match="has written batch 4, and is now asked for batch 3"):
        write_once(rows(0, 100), options, Task("q3", 3, 0))
    assert committed(kafka, "divided") == list(range(100))


def test_notes_are_kept_apart_and_for_ever(kafka: KafkaNode):
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    create(kafka, "apart")
    options = exactly_once(kafka.bootstrap_servers, "apart")
    # Both tasks note in the same partition.
    write_once(rows(0, 10), options, Task("q4", 7, 0))
    write_once(rows(10, 10), options, Task("q5", 0, 8))
    write_once(rows(0, 10), options, Task("q4", 7, 0))
    write_once(rows(10, 10), options, Task("q5", 0, 8))
    assert committed(kafka, "apart") == list(range(20))
    assert len(admin.list_topics(COMMITS_TOPIC).topics[COMMITS_TOPIC].partitions) == 8
    # Though these brokers create what they are asked for, with a policy that forgets.
    place = ConfigResource(ConfigResource.Type.TOPIC, COMMITS_TOPIC)
    settings = admin.describe_configs([place])[place].result()
    assert settings["cleanup.policy"].value == "compact"


def test_a_stream_whose_last_batch_is_repeated_writes_once(
    kafka: KafkaNode, spark: SparkSession, tmp_path
):
    """A checkpoint without the commit of its last batch is what a dead driver leaves."""
    create(kafka, "streamed")
    source = tmp_path / "source"
    numbers = spark.range(0, 1000, 1, 4).selectExpr("CAST(id AS STRING) value")
    numbers.write.text(str(source))
    for repetition in range(2):
        query = (
            spark.readStream.format("text")
            .load(str(source))
            .writeStream.format("tidelog")
            .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
            .option("topic", "streamed")
            .option("deliveryGuarantee", "exactly-once")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert query.exception() is None
        commits = list((tmp_path / "checkpoint" / "commits").glob("*0*"))
        assert {file.name for file in commits} == {"0", ".0.crc"}, repetition
        for file in commits if repetition == 0 else ():
            file.unlink()
    assert committed(kafka, "streamed") == list(range(1000))

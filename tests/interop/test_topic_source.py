"""The topic source against Apache Kafka 4.3.1: live transactions, times, a group's offsets.

Planned and read as Spark does it, without Spark.
"""

import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.kafka_node import KafkaNode
from tests.interop.prepare import CONNECTOR_PYTHON
from tidelog.pipeline.cluster import Client
from tidelog.pipeline.topics import stream
from tidelog.pipeline.topics.group_progress import check_groups_are_served, commit_progress
from tidelog.pipeline.topics.options import parse_options
from tidelog.pipeline.topics.plan import into_tasks, plan_ranges
from tidelog.pipeline.topics.source import read_ranges
from tidelog.pipeline.topics.stream_offsets import Position
from tidelog.testing.waiting import wait_until

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def topic(kafka: KafkaNode) -> str:
    """50 records without a transaction, then 40 committed, 30 aborted, and 20 left open."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_topics([NewTopic("decided", 2, 1, config={"retention.ms": "-1"})])[
        "decided"
    ].result(TIMEOUT_S)
    plain = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    send(plain, "plain", 50)
    plain.flush(TIMEOUT_S)
    for count, end in ((40, "commit_transaction"), (30, "abort_transaction"), (20, None)):
        # One id each: an id that comes again would end the transaction that is left open.
        config = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"t{count}"}
        producer = Producer(config)
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        send(producer, str(end), count)
        producer.flush(TIMEOUT_S)
        if end is not None:
            getattr(producer, end)(TIMEOUT_S)
        else:
            _KEPT.append(producer)
    return "decided"


_KEPT: list[Producer] = []
"""Producers with open transactions, which their destructors would abort."""


def send(producer: Producer, what: str, count: int) -> None:
    for number in range(count):
        producer.produce(
            "decided",
            f"{what}-{number}".encode(),
            partition=number % 2,
            timestamp=1_700_000_000_000 + number,
        )


def options(kafka: KafkaNode, topic: str, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic} | more


def values(given: dict[str, str]) -> list[str]:
    parsed = parse_options(given)
    with Client(parsed.rules.bootstrap) as client:
        tasks = into_tasks(plan_ranges(parsed, client), parsed.sizes)
    rows: list[dict[str, Any]] = [
        row
        for task in tasks
        for batch in read_ranges(task, parsed.rules, ["value"])
        for row in batch.to_pylist()
    ]
    return sorted(row["value"].decode() for row in rows)


def named(what: str, count: int) -> list[str]:
    return [f"{what}-{number}" for number in range(count)]


def test_committed_records_are_read_up_to_the_first_open_transaction(kafka, topic):
    given = options(kafka, topic, **{"kafka.isolation.level": "read_committed"})
    assert values(given) == sorted(named("plain", 50) + named("commit_transaction", 40))


def test_everything_is_read_by_default(kafka, topic):
    assert len(values(options(kafka, topic))) == 50 + 40 + 30 + 20


def test_times_bound_what_is_read(kafka, topic):
    begun = options(kafka, topic, startingTimestamp="1700000000048")
    with_ends = begun | {"endingTimestamp": "1700000000049"}
    assert "plain-48" in values(begun)
    assert "plain-0" not in values(begun)
    assert "plain-49" not in values(with_ends)


def test_progress_is_seen_in_the_group(kafka, topic):
    parsed = parse_options(options(kafka, topic) | {"kafka.group.id": "spark"}, streaming=True)
    with Client(parsed.rules.bootstrap) as client:
        check_groups_are_served(client, "spark")
        end = stream.available(parsed, client)
        assert Position.from_json(end.to_json()) == end
        # The first commit of all makes the topic of the groups.
        committed = wait_until(
            lambda: commit_progress(client, "spark", end.offsets), TIMEOUT_S, "commit"
        )
    assert committed
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "spark"})
    places = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    found = {(p.topic, p.partition): p.offset for p in consumer.committed(places, TIMEOUT_S)}
    consumer.close()
    assert found == dict(end.offsets)


def test_the_source_is_there_on_the_oldest_spark(kafka, topic):
    """Spark 4.0 knows neither filters nor limits, and no writers of Arrow batches."""
    given = options(kafka, topic)
    code = f"""
import sys
sys.path += {[*map(str, _own_packages())]!r}
import pyspark
from pyspark.sql.types import StructType
from pyspark_tidelog import DefaultSource
assert pyspark.__version__.startswith("4.0."), pyspark.__version__
source = DefaultSource({given!r})
schema = StructType().add("offset", "long").add("value", "binary")
assert "leader_epoch int" in source.schema()
batch = source.reader(schema)
rows = sum(len(one) for part in batch.partitions() for one in batch.read(part))
begin = source.streamReader(schema)
end = begin.latestOffset()
refused = []
for version, ask in (
    ("4.1", lambda: source.writer(schema, False)),
    ("4.1", lambda: source.streamWriter(schema, False)),
    ("4.2", lambda: limited.streamReader(schema)),
):
    limited = DefaultSource({{**{given!r}, "maxOffsetsPerTrigger": "9"}})
    try:
        ask()
    except Exception as error:
        refused.append(f"Spark {{version}} or newer\\nhint: install it with" in str(error))
assert refused == [True] * 3, refused
print(rows, end["{topic}:0"] + end["{topic}:1"], hasattr(begin, "getDefaultReadLimit"))
"""
    done = subprocess.run(
        [str(CONNECTOR_PYTHON), "-c", code], capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, done.stderr
    # 140 records and two markers in each partition.
    assert done.stdout.split() == ["140", "144", "False"]


def _own_packages() -> list[str]:
    """Where this interpreter has the project and what it stands on."""
    return [path for path in sys.path if path]

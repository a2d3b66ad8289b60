"""Real nodes, a real kill: and the figures from their events.

Order and existence are asserted, and no time: a busy machine is slow, not wrong."""

import json

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.process.clients import TOPIC, BackgroundProducer, ConfluentKafka
from tidelog.pipeline.health.events import (
    EVENTS_TOPIC,
    find_event_files,
    read_event_files,
    read_event_topic,
)
from tidelog.pipeline.health.report import page
from tidelog.pipeline.health.transforms import of_topics
from tidelog.pipeline.jobs.health import measure, write_tables
from tidelog.testing import LocalCluster

pytestmark = [pytest.mark.spark, pytest.mark.process]


def wait_until_published(bootstrap, topic, successor):
    """Returns once the topic of events has an election of `topic` and something of the successor.
    Each node publishes its own, so either may come first."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            # A commit would wait for a coordinator for as long as a session.
            "enable.auto.commit": False,
            "log_level": 2,
        }
    )
    consumer.assign([TopicPartition(EVENTS_TOPIC, 0, 0)])
    missing = {"the election", "the successor"}
    try:
        for _ in range(10_000):
            message = consumer.poll(10)
            assert message is not None, f"nothing of {missing} in time"
            if message.error() is None:
                event = json.loads(message.value())
                if (event["kind"], event["topic"]) == ("election", topic):
                    missing.discard("the election")
                if event["broker"] == successor:
                    missing.discard("the successor")
                if not missing:
                    return
    finally:
        consumer.close()
    raise AssertionError(f"nothing of {missing}")


@pytest.fixture(scope="module")
def killed(spark, tmp_path_factory):
    """The data directory of a cluster whose leader was killed under load, who it was, who followed,
    and what the topic of events then held."""
    data_dir = tmp_path_factory.mktemp("killed") / "nodes"
    config = {"tidelog.events.enable": "true", "tidelog.events.topic.enable": "true"}
    with LocalCluster(brokers=3, data_dir=data_dir, config=config) as cluster:
        cluster.create_topic(
            TOPIC, partitions=1, replication_factor=3, configs={"min.insync.replicas": "2"}
        )
        cluster.wait_for_isr(TOPIC, 0, (1, 2, 3))
        producer = BackgroundProducer(ConfluentKafka(), cluster.bootstrap_servers)
        producer.wait_for_more(100)
        leader = cluster.wait_for_leader(TOPIC, 0)
        cluster.kill(leader)
        producer.wait_for_more(100)
        successor = cluster.wait_for_leader(TOPIC, 0, exclude=(leader,))
        producer.finish()
        wait_until_published(cluster.bootstrap_servers, TOPIC, successor)
        published = read_event_topic(spark, cluster.bootstrap_servers)
        rows = published.select("topic", "kind", "payload.old_leader", "broker").collect()
        for node in cluster.nodes:
            if node.node_id != leader:
                # Without a clean stop, whose elections would be events as well.
                cluster.kill(node.node_id)
    return data_dir, leader, successor, rows


def test_health_names_the_election_its_cause_and_the_window(spark, killed, tmp_path):
    data_dir, leader, successor, _ = killed
    events = read_event_files(spark, find_event_files([data_dir]))
    found = measure(of_topics(events, (TOPIC,)).cache())
    elected = next(row for row in found.elections if row["old_leader"] == leader)
    assert elected["new_leader"] == successor
    assert f"broker {leader} fenced" in elected["cause"]
    assert elected["outcome"] == "from isr"
    assert elected["election_ms"] > 0
    window = next(row for row in found.unavailability if row["broker"] == leader)
    assert window["start"] <= elected["at"] <= window["end"]
    assert window["duration_ms"] >= elected["leading_ms"]
    shrunk = [row for row in found.intervals if row["kind"] == "under_replicated"]
    assert f"broker {leader} fenced" in shrunk[0]["cause"]
    assert {row["leader"] for row in found.latency} == {leader, successor}
    assert next(row["replica"] for row in found.flaps if row["left"]) == leader
    assert f"{leader} → {successor}" in page(found)
    write_tables(events, tmp_path)
    stored = spark.read.parquet(str(tmp_path / "elections"))
    assert stored.where(f"topic = '{TOPIC}' and old_leader = {leader}").count() == 1


def test_nodes_publish_what_they_write_but_nothing_about_the_topic_of_events(killed):
    _, leader, successor, rows = killed
    elected = [row for row in rows if (row.topic, row.kind) == (TOPIC, "election")]
    assert elected[0].old_leader == leader
    # A consumer of the events has made the topic of offsets.
    assert {row.topic for row in rows} - {"__consumer_offsets"} == {None, TOPIC}
    # The one that was killed may have lived too briefly to publish anything.
    assert successor in {row.broker for row in rows}

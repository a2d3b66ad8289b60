"""Committed metadata reaches the replicas, with the configuration that each topic obeys."""

from dataclasses import replace

import pytest

from tests.unit.broker.api.test_k32_describe_configs import BROKER, TOPIC, alter
from tests.unit.broker.one_node import OneNode
from tests.unit.broker.test_unserved import disk_with
from tidelog.broker.features import METADATA
from tidelog.broker.metadata_snapshots import LoadedImage
from tidelog.config import LogConfig
from tidelog.controller.brokers import register_broker_record
from tidelog.controller.messages import FeatureRange, RegisterBroker
from tidelog.metadata import records
from tidelog.model import Endpoint, TopicId, TopicPartition, Uuid


def retention_of(node: OneNode, topic: str) -> int:
    log = node.node._directories.logs[TopicPartition(topic, 0)]
    config: LogConfig = log.config
    return config.retention_ms


@pytest.fixture
def node() -> OneNode:
    one = OneNode(log_retention_ms="1000")
    one.client().create_topic("plain")
    one.client().create_topic("own", retention_ms="5000")
    return one


def test_each_level_gives_way_to_the_next(node):
    """Static file, cluster-wide dynamic, this broker's dynamic, topic: the last one given wins."""
    wire = node.client()
    assert (retention_of(node, "plain"), retention_of(node, "own")) == (1000, 5000)
    alter(wire, BROKER, "", "log.retention.ms", "2000")
    assert (retention_of(node, "plain"), retention_of(node, "own")) == (2000, 5000)
    alter(wire, BROKER, "1", "log.retention.ms", "3000")
    assert (retention_of(node, "plain"), retention_of(node, "own")) == (3000, 5000)
    alter(wire, TOPIC, "plain", "retention.ms", "4000")
    assert (retention_of(node, "plain"), retention_of(node, "own")) == (4000, 5000)


def test_another_brokers_configuration_is_not_ours(node):
    node.add_broker(2)
    alter(node.client(), BROKER, "2", "log.retention.ms", "9")
    assert retention_of(node, "plain") == 1000


def test_the_image_is_what_the_controller_has_committed(node):
    assert node.broker.image == node.broker.controller.image
    assert node.broker.image.offset == node.broker.quorum.high_watermark - 1


def test_throttled_rates_follow_the_dynamic_configuration(node):
    """A broker's own rate comes before the cluster's; a removed rate throttles no longer."""
    wire, throttles = node.client(), node.node._replicas._env.throttles
    leader, follower = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
    alter(wire, BROKER, "", leader, "700")
    alter(wire, BROKER, "", follower, "800")
    alter(wire, BROKER, "1", leader, "70")
    assert (throttles.leader.rate, throttles.follower.rate) == (70, 800)
    alter(wire, BROKER, "1", leader, None, operation=1)
    alter(wire, BROKER, "", leader, None, operation=1)
    assert (throttles.leader.rate, throttles.follower.rate) == (2**63 - 1, 800)


def test_the_expiry_of_producers_follows_the_dynamic_configuration(node):
    """Of the logs that are there already, too."""
    alter(node.client(), BROKER, "", "producer.id.expiration.ms", "77")
    log = node.node._directories.logs[TopicPartition("plain", 0)]
    assert log.config.producer_id_expiration_ms == 77


def test_a_topic_that_a_snapshot_lacks_was_deleted(node):
    """Goal: coordinators learn of it though another topic came, and none went before."""
    before, feed = node.broker.image, node.node._quorum_follower.feed
    gone = before.topics_by_name["plain"]
    came = replace(gone, name="other", topic_id=TopicId(b"o" * 16))
    topics = {"own": before.topics_by_name["own"], "other": came}
    image = replace(
        before,
        offset=before.offset + 1,
        topics_by_name=topics,
        topics_by_id={topic.topic_id: topic for topic in topics.values()},
    )
    feed.read(LoadedImage(image), 0)
    after = feed.publish(image.epoch, node.now)
    assert after == image
    assert (before.deleted_topics, after.deleted_topics) == (0, 1)


@pytest.mark.parametrize(("level", "count"), [(20, 1), (21, 0)], ids=["3.8", "3.9"])
def test_a_partner_older_than_any_that_was_tried_is_named_once(level: int, count: int) -> None:
    finalised = records.FeatureLevelRecord(name=METADATA, feature_level=level)
    partner = RegisterBroker(
        broker_id=2,
        cluster_id="cluster",
        incarnation_id=Uuid(b"i" * 16),
        endpoints=(Endpoint("PLAINTEXT", "host2", 9092),),
        rack=None,
        features={METADATA: FeatureRange(7, level)},
        log_dirs=(Uuid(b"e" * 16),),
    )
    node = OneNode(disk=disk_with(finalised, register_broker_record(partner, 2, None)))
    alter(node.client(), BROKER, "2", "log.retention.ms", "9")
    lines = [line for line in node.trace.take_lines() if "untried partner" in line]
    assert len(lines) == count
    assert all("older than Kafka 3.9's 21; hint: upgrade it" in line for line in lines)

"""Committed metadata reaches the replicas, with the configuration that each topic obeys."""

import pytest

from tests.unit.broker.api.test_k32_describe_configs import BROKER, TOPIC, alter
from tests.unit.broker.one_node import OneNode
from tidelog.config import LogConfig
from tidelog.model import TopicPartition


def retention_of(node: OneNode, topic: str) -> int:
    log = node.node._directory.logs[TopicPartition(topic, 0)]
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

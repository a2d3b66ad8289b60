"""The questions that handlers ask of the image."""

from dataclasses import replace

import pytest

from tests.unit.broker.one_node import BROKER, OneNode
from tidelog.model import Endpoint


@pytest.fixture
def node() -> OneNode:
    """Brokers 1 and 2 alive, 3 fenced; topic `t` of partition 0 on 2, 3 and 1."""
    one = OneNode()
    one.add_broker(2)
    one.add_broker(3, fenced=True)
    one.client().create_topic("t", replicas=(2, 1))
    return one


def test_alive_is_registered_and_unfenced(node):
    assert [node.broker.is_alive(node_id) for node_id in (1, 2, 3, 4)] == [True, True, False, False]


def test_alive_brokers_of_a_listener(node):
    image = node.broker.image
    elsewhere = replace(image.brokers[2], endpoints=(Endpoint("OTHER", "x", 1),))
    assert [row[0] for row in node.broker.alive_brokers(BROKER)] == [1, 2]
    node.broker.image = replace(image, brokers={**image.brokers, 2: elsewhere})
    assert [row[0] for row in node.broker.alive_brokers(BROKER)] == [1]
    assert node.broker.alive_brokers("OTHER") == [(2, Endpoint("OTHER", "x", 1), "rack2")]
    assert node.broker.endpoint(2, BROKER) is None
    assert node.broker.endpoint(9, BROKER) is None


def test_some_alive_broker_is_this_one_if_it_is_alive(node):
    assert node.broker.any_alive_broker() == 1
    image = node.broker.image
    fenced = {1: replace(image.brokers[1], fenced=True)}
    node.broker.image = replace(image, brokers={**image.brokers, **fenced})
    assert node.broker.any_alive_broker() == 2
    node.broker.image = replace(image, brokers={})
    assert node.broker.any_alive_broker() == -1


def test_offline_replicas_are_on_brokers_that_are_fenced_or_gone(node):
    partition = node.broker.image.topics_by_name["t"].partitions[0]
    wide = replace(partition, replicas=(4, 1, 3, 2))
    assert node.broker.offline_replicas(wide) == (4, 3)


def test_leader_hints(node):
    assert tuple(node.broker.leader_hint("t", 0)) == (2, 0)
    assert tuple(node.broker.leader_hint("t", 1)) == (-1, -1)
    assert tuple(node.broker.leader_hint("nobody", 0)) == (-1, -1)


def test_node_endpoints_are_those_of_alive_brokers(node):
    found = node.broker.node_endpoints({-1, 2, 3}, BROKER)
    assert [(node_id, end.host, rack) for node_id, end, rack in found] == [(2, "host2", "rack2")]


def test_wall_time_follows_the_clock_of_the_driver(node):
    node.broker.wall_offset_ms = 5
    assert node.broker.wall_ms(node.now) == node.now + 5


def test_a_topic_is_asked_for_once_while_it_is_being_made(node):
    node.broker.auto_create_topics(["x", "y", "x"], node.now)
    node.broker.auto_create_topics(["y", "z"], node.now)
    assert node.broker.creating == {"x", "y", "z"}
    node.settle()
    assert node.broker.creating == set()
    assert {"x", "y", "z"} <= set(node.broker.image.topics_by_name)

"""Who leads instead."""

import pytest

from tests.unit.broker.one_node import BROKER, OneNode
from tidelog.broker.api.leader_hints import leader_hint, node_endpoints
from tidelog.metadata.image import MetadataImage


@pytest.fixture
def image() -> MetadataImage:
    """Brokers 1 and 2 alive, 3 fenced; topic `t` of partition 0 on 2 and 1."""
    one = OneNode()
    one.add_broker(2)
    one.add_broker(3, fenced=True)
    one.client().create_topic("t", replicas=(2, 1))
    return one.broker.image


def test_leader_hints(image):
    assert tuple(leader_hint(image, "t", 0)) == (2, 0)
    assert tuple(leader_hint(image, "t", 1)) == (-1, -1)
    assert tuple(leader_hint(image, "absent", 0)) == (-1, -1)


def test_node_endpoints_are_those_of_alive_brokers(image):
    found = node_endpoints(image, {-1, 2, 3}, BROKER)
    assert [(node_id, end.host, rack) for node_id, end, rack in found] == [(2, "host2", "rack2")]

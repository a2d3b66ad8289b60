"""The brokers that answers name."""

from dataclasses import replace

from tests.unit.broker.one_node import OneNode
from tidelog.broker.api.cluster_rows import any_alive_broker


def test_some_alive_broker_is_this_one_if_it_is_alive():
    node = OneNode()
    node.add_broker(2)
    assert any_alive_broker(node.broker) == 1
    image = node.broker.image
    fenced = {1: replace(image.brokers[1], fenced=True)}
    node.broker.image = replace(image, brokers={**image.brokers, **fenced})
    assert any_alive_broker(node.broker) == 2
    node.broker.image = replace(image, brokers={})
    assert any_alive_broker(node.broker) == -1

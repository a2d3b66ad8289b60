"""A running node with topic `t` of two partitions, and clients of its listeners."""

import pytest

from tests.unit.broker.one_node import CONTROLLER, OneNode, Wire
from tidelog.broker.context import Broker


@pytest.fixture
def node() -> OneNode:
    one = OneNode()
    one.client().create_topic("t", 2)
    return one


@pytest.fixture
def broker(node: OneNode) -> Broker:
    return node.broker


@pytest.fixture
def wire(node: OneNode) -> Wire:
    return node.client()


@pytest.fixture
def controller_wire(node: OneNode) -> Wire:
    return node.client(CONTROLLER)

"""What tests of the broker share."""

import pytest

from tests.unit.broker.one_node import OneNode
from tests.unit.broker.secured_node import a_node


@pytest.fixture
def secured() -> OneNode:
    """A node with an authorizer and two topics; connections without a principal are super users."""
    node = a_node()
    node.client().create_topic("orders")
    node.client().create_topic("secret")
    return node

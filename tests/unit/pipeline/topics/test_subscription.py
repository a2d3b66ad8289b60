"""Which partitions a query reads."""

import pytest

from tests.unit.client.scripted_brokers import ScriptedCluster, ScriptedPartition
from tidelog.client.core.values import Address
from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.cluster import Client
from tidelog.pipeline.topics.subscription import Subscription

_NAMES = ("orders", "orders.eu", "__consumer_offsets")


@pytest.fixture
def client():
    partitions = {
        TopicPartition(name, number): ScriptedPartition([]) for name in _NAMES for number in (0, 1)
    }
    with (
        ScriptedCluster(partitions) as cluster,
        Client([Address(*address) for address in cluster.addresses], retry_s=2.0) as made,
    ):
        yield made


def _found(subscription: Subscription, client: Client) -> list[str]:
    return [str(tp) for tp in subscription.find(client)]


def test_names_patterns_and_assigned_partitions(client):
    assert _found(Subscription(topics=("orders",)), client) == ["orders-0", "orders-1"]
    assert _found(Subscription(topics=("__consumer_offsets",)), client) == [
        "__consumer_offsets-0",
        "__consumer_offsets-1",
    ]
    assert _found(Subscription(pattern="order"), client) == []
    assert _found(Subscription(pattern=r"orders\..*"), client) == ["orders.eu-0", "orders.eu-1"]
    assert {tp[:6] for tp in _found(Subscription(pattern=".*"), client)} == {"orders"}
    assigned = frozenset((TopicPartition("orders.eu", 1), TopicPartition("orders", 0)))
    assert _found(Subscription(assigned=assigned), client) == ["orders-0", "orders.eu-1"]


def test_an_assigned_partition_that_is_not_there_is_named(client):
    subscription = Subscription(assigned=frozenset((TopicPartition("orders", 7),)))
    with pytest.raises(UsageError, match="partition `orders-7`, which does not exist") as caught:
        subscription.find(client)
    assert caught.value.hint == "topic `orders` has partitions 0 to 1"

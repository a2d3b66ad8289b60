"""Tests of the service against real brokers: `tidelog_cluster` is a fixture of Tidelog's plugin."""

import pytest
from orders import OrderRefused, OrderService

from tidelog.testing import LocalCluster

FULL = {"min.insync.replicas": "2"}


def test_orders_are_acknowledged_in_order(tidelog_cluster):
    tidelog_cluster.create_topic("orders", partitions=1, replication_factor=3, configs=FULL)
    service = OrderService(tidelog_cluster.bootstrap_servers, "orders")
    assert [service.place(f"order-{n}", {"pieces": n}) for n in range(3)] == [0, 1, 2]


@pytest.fixture
def cluster():
    """A cluster of this test's own, because the test kills its nodes."""
    with LocalCluster(brokers=3) as cluster:
        yield cluster


def test_the_service_survives_a_failover(cluster):
    cluster.create_topic("orders", partitions=1, replication_factor=3, configs=FULL)
    service = OrderService(cluster.bootstrap_servers, "orders")
    assert service.place("before", {"pieces": 1}) == 0
    leader = cluster.wait_for_leader("orders", 0)
    cluster.kill(leader)
    assert service.place("after", {"pieces": 1}) == 1
    assert cluster.wait_for_leader("orders", 0, exclude=[leader]) != leader


def test_an_order_is_refused_while_too_few_replicas_are_in_sync(cluster):
    cluster.create_topic("orders", assignment=[[1, 2]], configs=FULL)
    cluster.kill(2)
    cluster.wait_for_isr("orders", 0, {1})
    # The broker answers NOT_ENOUGH_REPLICAS until the producer gives up.
    with pytest.raises(OrderRefused, match="order `lost` is not acknowledged"):
        OrderService(cluster.bootstrap_servers, "orders", patience_s=2).place("lost", {})
    cluster.start_node(2)
    cluster.wait_for_isr("orders", 0, {1, 2})
    assert OrderService(cluster.bootstrap_servers, "orders").place("kept", {}) == 0

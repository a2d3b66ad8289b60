"""The pytest plugin of users' tests: a local cluster as a fixture, and a protected one.

    def test_orders(tidelog_cluster):
        tidelog_cluster.create_topic("orders", partitions=3, replication_factor=3)
        producer = Producer({"bootstrap.servers": tidelog_cluster.bootstrap_servers})

pytest loads this module in every session in which Tidelog is installed, so it imports nothing
until the fixture is used.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidelog.testing.local_cluster import LocalCluster


@pytest.fixture(scope="session")
def tidelog_cluster() -> "Iterator[LocalCluster]":
    """Three real nodes with short timers, for the whole session."""
    from tidelog.testing.local_cluster import LocalCluster

    with LocalCluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def tidelog_secure_cluster() -> "Iterator[LocalCluster]":
    """The same with TLS, logins and an authorizer; `security` has the users."""
    from tidelog.testing.local_cluster import LocalCluster

    with LocalCluster(brokers=3, secure=True) as cluster:
        yield cluster

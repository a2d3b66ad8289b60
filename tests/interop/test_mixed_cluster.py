"""Nodes of Apache Kafka 4.3.1 and of ours in one cluster, and in turn on the same disks.

One cluster of two nodes goes through all of it: Kafka leads the quorum and has the controller, our
broker joins; then both disks change hands.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.java_tools import SHORT_LIVED
from tests.interop.mixed import Mixed

REGISTRATIONS = "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.server.BrokerLifecycleManager=info"


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[Mixed]:
    """Not started."""
    cluster = Mixed(tmp_path, java_options=(*SHORT_LIVED, REGISTRATIONS))
    yield cluster
    cluster.stop_all()


def test_both_kinds_replicate_administrate_and_exchange_their_disks(mixed: Mixed) -> None:
    """Topics are made through our broker while Kafka's controller decides; every replica is the
    same, byte for byte; then each node's disk is taken over by the other kind. A broker that stops
    cleanly comes back as the other kind under either controller."""
    mixed.form()
    mixed.administrate_through_ours()
    mixed.take_over_under_kafka()
    mixed.replicate()
    mixed.exchange_disks()
    mixed.administrate_through_kafka()
    mixed.take_over_under_ours()
    mixed.take_over_from_killed()

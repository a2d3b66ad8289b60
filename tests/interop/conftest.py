"""One Tidelog cluster and one Spark with the official connector for all tests."""

import shutil
from collections.abc import Iterator

import pytest

from tests.interop.connector import Connector
from tests.interop.kafka_node import KafkaNode
from tests.interop.records import START_TIMEOUT_S
from tidelog.testing import LocalCluster

_NEEDS = {"test_kcat.py": "kcat", "test_franz_go_tests.py": "go"}
collect_ignore = [test for test, program in _NEEDS.items() if shutil.which(program) is None]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three nodes of Tidelog; a test that stops some starts them again.

    With the timers of production: on a machine that starts one Java process after the other, a node
    may get no CPU for half a second and is not dead.
    """
    directory = tmp_path_factory.mktemp("cluster") / "nodes"
    running = LocalCluster(brokers=3, data_dir=directory, profile="default")
    running.start(START_TIMEOUT_S)
    yield running
    running.close()


@pytest.fixture(scope="session")
def connector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connector]:
    """A Spark of the connector's version, with the connector."""
    with Connector(tmp_path_factory.mktemp("connector")) as running:
        yield running


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    """Apache Kafka, for what Tidelog does not have yet."""
    with KafkaNode(tmp_path_factory.mktemp("kafka")) as running:
        yield running

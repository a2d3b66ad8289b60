"""Apache Kafka's clients and tools against `tidelog up --secure`, with the files that it makes."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.interop.java_tools import TIMEOUT_S, JavaTools, java_command
from tests.interop.records import START_TIMEOUT_S
from tidelog.testing import LocalCluster

TOPIC, RECORDS = "orders", 100
PRODUCER = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("secure") / "cluster"
    cluster = LocalCluster(brokers=3, data_dir=directory, profile="default", secure=True)
    cluster.start(START_TIMEOUT_S)
    yield cluster
    cluster.close()


def login(cluster: LocalCluster, user: str) -> tuple[str, str]:
    """The option of Kafka's tools for a user."""
    return "--command-config", str(cluster.security.properties_file(user))


def write(
    cluster: LocalCluster, user: str, count: int = RECORDS
) -> "subprocess.CompletedProcess[str]":
    """Kafka's producer writes as a user."""
    arguments = (
        *("--bootstrap-server", cluster.bootstrap_servers, "--topic", TOPIC),
        *("--num-records", str(count), "--record-size", "10", "--throughput", "-1"),
        *login(cluster, user),
    )
    command = java_command(PRODUCER, *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def test_kafkas_clients_and_kafka_acls(cluster: LocalCluster) -> None:
    tools = JavaTools(cluster.bootstrap_servers)
    admin, guest = login(cluster, "admin"), login(cluster, "guest")
    topics = "org.apache.kafka.tools.TopicCommand"
    tools.run(topics, "--create", "--topic", TOPIC, "--partitions", "1", *admin)
    assert "100 records sent" in write(cluster, "admin").stdout
    refused = write(cluster, "guest", 1)
    assert "TopicAuthorizationException" in refused.stdout + refused.stderr
    grants = ("--add", "--allow-principal", "User:guest", "--topic", TOPIC)
    tools.run("AclCommand", *grants, "--producer", *admin)
    tools.run("AclCommand", *grants, "--consumer", "--group", "readers", *admin)
    assert "100 records sent" in write(cluster, "guest").stdout
    read = tools.run(
        *(CONSUMER, "--topic", TOPIC, "--group", "readers", "--from-beginning"),
        *("--max-messages", str(2 * RECORDS), *guest),
    )
    assert len(read.split()) == 2 * RECORDS

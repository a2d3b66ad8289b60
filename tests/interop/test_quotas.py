"""Apache Kafka's `kafka-configs`, unmodified, sets quotas of a cluster of Tidelog; a real client
keeps to its quota."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.interop.java_tools import JavaTools
from tests.interop.records import START_TIMEOUT_S
from tidelog.client import AdminClient
from tidelog.client.quotas import Quota
from tidelog.testing import LocalCluster

TOOL = "kafka.admin.ConfigCommand"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("quotas") / "nodes"
    with LocalCluster(brokers=2, data_dir=directory) as running:
        running.start(START_TIMEOUT_S)
        yield running


def quotas(cluster: LocalCluster) -> list[Quota]:
    with AdminClient([cluster.bootstrap_servers.split(",")[0]]) as admin:
        return admin.quotas.list({})


def test_quotas_are_set_described_and_removed(cluster: LocalCluster) -> None:
    tools = JavaTools(cluster.bootstrap_servers)
    ada = ("--entity-type", "users", "--entity-name", "ada")
    values = "producer_byte_rate=1048576,request_percentage=12.5"
    tools.run(TOOL, "--alter", *ada, "--add-config", values)
    tools.run(
        *(TOOL, "--alter", "--entity-type", "clients", "--entity-default"),
        *("--add-config", "consumer_byte_rate=2097152"),
    )
    tools.run(
        *(TOOL, "--alter", "--entity-type", "ips", "--entity-name", "10.0.0.1"),
        *("--add-config", "connection_creation_rate=7"),
    )
    described = tools.run(TOOL, "--describe", *ada)
    assert "producer_byte_rate=1048576.0" in described and "request_percentage=12.5" in described
    assert "connection_creation_rate=7.0" in tools.run(TOOL, "--describe", "--entity-type", "ips")
    assert {(next(iter(q.entity.items())), q.name, q.value) for q in quotas(cluster)} == {
        (("user", "ada"), "producer_byte_rate", 1048576),
        (("user", "ada"), "request_percentage", 12.5),
        (("client-id", None), "consumer_byte_rate", 2097152),
        (("ip", "10.0.0.1"), "connection_creation_rate", 7),
    }
    names = "producer_byte_rate,request_percentage"
    tools.run(TOOL, "--alter", *ada, "--delete-config", names)
    assert all("user" not in quota.entity for quota in quotas(cluster))


def test_a_producer_keeps_to_its_quota(cluster: LocalCluster) -> None:
    """Every request is carried out, and the client is made to wait."""
    pauses: list[int] = []
    with AdminClient([cluster.bootstrap_servers.split(",")[0]]) as admin:
        admin.create_topic("orders", partitions=1, replication_factor=2)
        admin.quotas.alter({"client-id": "busy"}, {"producer_byte_rate": 20_000})
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "client.id": "busy",
            "batch.size": 10_000,
            "linger.ms": 5,
            "throttle_cb": lambda event: pauses.append(event.throttle_time),
        }
    )
    began, failed = time.monotonic(), []
    for _ in range(240):
        producer.produce("orders", bytes(1000), on_delivery=lambda e, _: e and failed.append(e))
    assert producer.flush(60) == 0
    assert not failed
    assert pauses and max(pauses) > 0
    assert time.monotonic() - began >= 1

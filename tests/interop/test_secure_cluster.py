"""Apache Kafka's clients and tools against `tidelog up --secure`, with the files that it makes."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.java_tools import TIMEOUT_S, JavaTools, java_command
from tests.interop.records import START_TIMEOUT_S
from tidelog.testing import LocalCluster
from tidelog.testing.files import replace_file

TOPIC, RECORDS = "orders", 100
CONFIGS = "kafka.admin.ConfigCommand"
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
    cluster: LocalCluster, login: tuple[str, str], count: int = RECORDS
) -> "subprocess.CompletedProcess[str]":
    """Kafka's producer writes with this login."""
    arguments = (
        *("--bootstrap-server", cluster.bootstrap_servers, "--topic", TOPIC),
        *("--num-records", str(count), "--record-size", "10", "--throughput", "-1"),
        *login,
    )
    command = java_command(PRODUCER, *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def test_kafkas_clients_and_kafka_acls(cluster: LocalCluster) -> None:
    tools = JavaTools(cluster.bootstrap_servers)
    admin, guest = login(cluster, "admin"), login(cluster, "guest")
    topics = "org.apache.kafka.tools.TopicCommand"
    tools.run(topics, "--create", "--topic", TOPIC, "--partitions", "1", *admin)
    assert "100 records sent" in write(cluster, admin).stdout
    refused = write(cluster, guest, 1)
    assert "TopicAuthorizationException" in refused.stdout + refused.stderr
    grants = ("--add", "--allow-principal", "User:guest", "--topic", TOPIC)
    tools.run("AclCommand", *grants, "--producer", *admin)
    tools.run("AclCommand", *grants, "--consumer", "--group", "readers", *admin)
    assert "100 records sent" in write(cluster, guest).stdout
    read = tools.run(
        *(CONSUMER, "--topic", TOPIC, "--group", "readers", "--from-beginning"),
        *("--max-messages", str(2 * RECORDS), *guest),
    )
    assert len(read.split()) == 2 * RECORDS


def test_a_delegation_token_is_made_used_renewed_and_ended(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    tools = JavaTools(cluster.bootstrap_servers)
    admin, guest = login(cluster, "admin"), login(cluster, "guest")
    tokens = "org.apache.kafka.tools.DelegationTokenCommand"
    made = tools.run(tokens, "--create", "--max-life-time-period", "-1", *admin)
    token_id, code = made.splitlines()[-1].split()[:2]
    held = tmp_path / "token.properties"
    properties = cluster.security.properties_file("admin").read_text()
    jaas = f'username="{token_id}" password="{code}" tokenauth="true";'
    held.write_text(re.sub(r"username=.*", lambda _: jaas, properties))
    by_token = "--command-config", str(held)
    topics = "org.apache.kafka.tools.TopicCommand"
    tools.run(topics, "--create", "--if-not-exists", "--topic", TOPIC, *by_token)
    assert "100 records sent" in write(cluster, by_token).stdout
    with pytest.raises(AssertionError, match="UnsupportedByAuthentication"):
        tools.run(tokens, "--create", "--max-life-time-period", "-1", *by_token)
    description = "--describe", "--owner-principal", "User:admin"
    assert token_id in tools.run(tokens, *description, *admin)
    assert token_id not in tools.run(tokens, *description, *guest)
    renewal = "--renew", "--renew-time-period", "-1", "--hmac", code
    assert "Completed renew operation" in tools.run(tokens, *renewal, *admin)
    with pytest.raises(AssertionError, match="OwnerMismatch"):
        tools.run(tokens, *renewal, *guest)
    end = "--expire", "--expiry-time-period", "-1", "--hmac", code
    assert "Completed expire operation" in tools.run(tokens, *end, *admin)
    assert "Authentication failed" in write(cluster, by_token, 1).stderr


def test_kafka_configs_replaces_a_key_store(cluster: LocalCluster, tmp_path: Path) -> None:
    tools, store = JavaTools(cluster.bootstrap_servers), tmp_path / "node-1.pem"
    name = "listener.name.sasl_ssl.ssl.keystore.location"
    of_broker = ("--entity-type", "brokers", "--entity-name", "1", *login(cluster, "admin"))
    change = (CONFIGS, "--alter", "--add-config", f"{name}={store}", *of_broker)
    with pytest.raises(AssertionError, match="Invalid dynamic configuration"):
        tools.run(*change)
    replace_file(store, cluster.security.key_store("node-1").read_text(), secret=True)
    assert "Completed updating config for broker 1" in tools.run(*change)
    assert f"{name}={store}" in tools.run(CONFIGS, "--describe", *of_broker)
    removal = ("--alter", "--delete-config", name)
    assert "Completed updating" in tools.run(CONFIGS, *removal, *of_broker)

"""Apache Kafka 4.3.1's clients and tools log in: users of SCRAM made by either side."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.java_tools import JavaTools, run_tool
from tests.login_cluster import ALICE, admin_of, login_cluster, properties
from tidelog.config import format_properties
from tidelog.controller.bootstrap import BOOTSTRAP_FILE, bootstrap_file, first_records
from tidelog.metadata.scram_keys import salt_password
from tidelog.model import Mechanism
from tidelog.runtime.first_users import parse_first_users
from tidelog.testing import LocalCluster

CONFIGS = "kafka.admin.ConfigCommand"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with login_cluster(tmp_path_factory.mktemp("logins") / "cluster") as cluster:
        yield cluster


def client_file(directory: Path, mechanism: str, name: str, password: str) -> str:
    """A file for `--command-config`."""
    path = directory / f"{name}.properties"
    path.write_text(format_properties(properties(mechanism, name, password), "A login."))
    return str(path)


def test_a_user_that_kafka_configs_makes_produces_and_consumes(
    cluster: LocalCluster, tmp_path: Path
):
    tools = JavaTools(cluster.bootstrap_servers)
    alice = client_file(tmp_path, *ALICE)
    credentials = "SCRAM-SHA-256=[iterations=8192,password=java-s3cret]"
    tools.run(
        *(CONFIGS, "--command-config", alice, "--alter", "--add-config", credentials),
        *("--entity-type", "users", "--entity-name", "jane"),
    )
    with admin_of(cluster.nodes[0].address, *ALICE) as admin:
        admin.create_topic("java", partitions=1, replication_factor=3)
    jane = client_file(tmp_path, "SCRAM-SHA-256", "jane", "java-s3cret")
    tools.run(
        *("ProducerPerformance", "--topic", "java", "--num-records", "100"),
        *("--record-size", "10", "--throughput", "-1", "--command-config", jane),
    )
    read = tools.run(
        *("org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", "java"),
        *("--from-beginning", "--max-messages", "100", "--command-config", jane),
    )
    assert len(read.split()) == 100


def test_users_that_kafka_storage_makes_are_read(tmp_path: Path):
    """Goal: a directory that Kafka's tool has formatted has its users here too."""
    data = tmp_path / "data"
    file = tmp_path / "node.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n"
        "listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        f"controller.listener.names=CONTROLLER\nlog.dirs={data}\n"
    )
    user = "SCRAM-SHA-512=[name=node,iterations=8192,password=java-s3cret]"
    command = ("kafka.tools.StorageTool", "format", "-t", "4L6g3nShT-eMCtK--X86sw")
    run_tool(*command, "-c", str(file), "--add-scram", user)
    (found,) = first_records((data / BOOTSTRAP_FILE).read_bytes()).users
    salted = salt_password(Mechanism.SCRAM_SHA_512, "java-s3cret", found.salt, 8192)
    (same,) = parse_first_users(
        [
            "SCRAM-SHA-512=[name=node,iterations=8192,"
            f'salt="{_base64(found.salt)}",saltedpassword="{_base64(salted)}"]'
        ]
    )
    assert found == same


def test_users_that_our_formatting_makes_are_read_by_kafkas_tool(tmp_path: Path):
    users = parse_first_users(["SCRAM-SHA-512=[name=from-tidelog,password=p]"])
    file = tmp_path / BOOTSTRAP_FILE
    file.write_bytes(bootstrap_file(users, 1_700_000_000_000))
    dumped = run_tool("DumpLogSegments", "--cluster-metadata-decoder", "--files", str(file))
    assert "from-tidelog" in dumped
    assert "metadata.version" in dumped


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()

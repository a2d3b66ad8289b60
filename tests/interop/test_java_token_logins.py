"""Apache Kafka 4.3.1's clients log in by OAUTHBEARER, with a token in a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.java_tools import JavaTools
from tests.issuer import Issuer
from tests.login_cluster import ALICE, BEARER_MODULE, admin_of, login_cluster, token_config
from tidelog.config import format_properties
from tidelog.testing import LocalCluster
from tidelog.testing.files import replace_file


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer() as issuer:
        yield issuer


@pytest.fixture(scope="module")
def cluster(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    data_dir = tmp_path_factory.mktemp("tokens") / "cluster"
    with login_cluster(data_dir, token_config(issuer)) as cluster:
        yield cluster


def test_a_java_client_with_a_token_in_a_file_produces_and_consumes(
    cluster: LocalCluster, issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    token, file = tmp_path / "token", tmp_path / "client.properties"
    replace_file(token, issuer.token("jane"), secret=True)
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": f"file://{token}",
        "sasl.jaas.config": f"{BEARER_MODULE};",
        "sasl.login.callback.handler.class": BEARER_MODULE.replace(
            "LoginModule required", "LoginCallbackHandler"
        ),
    }
    file.write_text(format_properties(settings, "A login."))
    # Kafka asks for the URLs that may be read in a property of the JVM.
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{token}"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", allowed)
    with admin_of(cluster.nodes[0].address, *ALICE) as admin:
        admin.create_topic("java", partitions=1, replication_factor=3)
    tools = JavaTools(cluster.bootstrap_servers)
    tools.run(
        *("ProducerPerformance", "--topic", "java", "--num-records", "100"),
        *("--record-size", "10", "--throughput", "-1", "--command-config", str(file)),
    )
    read = tools.run(
        *("org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", "java"),
        *("--from-beginning", "--max-messages", "100", "--command-config", str(file)),
    )
    assert len(read.split()) == 100

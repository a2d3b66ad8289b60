"""Clients that show a certificate, at the second listener of a protected cluster's nodes."""

import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tidelog.client import AdminClient, ClientSecurity
from tidelog.client.core.errors import AuthenticationFailed, Unreachable
from tidelog.testing import LocalCluster
from tidelog.testing.certificates import Authority
from tidelog.testing.cluster_state import HOST, LocalNode
from tidelog.testing.files import replace_file
from tidelog.testing.security import HOSTS
from tidelog.testing.waiting import wait_until

pytestmark = pytest.mark.process

TOPIC = "protected"


@pytest.fixture(scope="module")
def cluster(secure_cluster: LocalCluster) -> LocalCluster:
    secure_cluster.create_topic(TOPIC, partitions=1, replication_factor=3)
    return secure_cluster


def address_of(node: LocalNode, host: str = HOST) -> str:
    """Of the listener that asks for a certificate."""
    return f"{host}:{node.peer_port}"


def librdkafka(cluster: LocalCluster, **more: str) -> dict[str, str]:
    """The properties of librdkafka for the administrator."""
    own = str(cluster.security.key_store("admin"))
    return {
        "bootstrap.servers": ",".join(map(address_of, cluster.nodes)),
        "security.protocol": "SSL",
        "ssl.ca.location": str(cluster.security.ca_pem),
        "ssl.certificate.location": own,
        "ssl.key.location": own,
        **more,
    }


def test_librdkafka_produces_and_consumes_through_a_failover(cluster: LocalCluster) -> None:
    """Records of several megabytes, so that cold reads of files are encrypted too."""
    from confluent_kafka import Consumer, Producer

    values = [bytes([number]) * 100_000 for number in range(60)]
    errors: list[object] = []
    producer = Producer(librdkafka(cluster, acks="all"))
    for value in values[:30]:
        producer.produce(TOPIC, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    leader = cluster.wait_for_leader(TOPIC, 0)
    cluster.kill(leader)
    for value in values[30:]:
        producer.produce(TOPIC, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert set(errors) == {None}
    cluster.start_node(leader)
    cluster.wait_for_isr(TOPIC, 0, {1, 2, 3})
    settings = {"group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(librdkafka(cluster, **settings))
    consumer.subscribe([TOPIC])
    received: list[bytes] = []
    while len(received) < len(values):
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        received.append(message.value())
    consumer.close()
    assert received == values


def settings_of(cluster: LocalCluster, path: Path | None, authority: str) -> ClientSecurity:
    """A client that shows what is in a file and trusts an authority."""
    own = {} if path is None else {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority}
    return ClientSecurity({"security.protocol": "SSL", **own, **trusted})


@pytest.mark.parametrize(
    ("case", "at_client", "at_broker"),
    [
        ("no certificate", "refused the TLS handshake", "peer did not return a certificate"),
        ("expired", "refused the TLS handshake", "certificate has expired"),
        ("other authority", "refused the TLS handshake", "certificate is not accepted"),
        ("other trust", "is not accepted", "alert unknown ca"),
        ("other host", "is not accepted: Hostname mismatch", "alert bad certificate"),
    ],
)
def test_who_does_not_belong_gets_a_reason_and_leaves_one_line(
    cluster: LocalCluster, tmp_path: Path, case: str, at_client: str, at_broker: str
) -> None:
    authority = Authority.kept_in(cluster.security.directory / "ca.key.pem")
    path = tmp_path / "own.pem"
    begin = datetime.now(UTC) - timedelta(days=9)
    signer = Authority.create() if case == "other authority" else authority
    lifetime = timedelta(days=1 if case == "expired" else 100)
    replace_file(path, signer.issue("mallory", begin=begin, lifetime=lifetime), secret=True)
    trusted = Authority.create() if case == "other trust" else authority
    own = None if case == "no certificate" else path
    security = settings_of(cluster, own, trusted.pem)
    node = cluster.node(2)
    before = refused_by(node)
    host = "127.1" if case == "other host" else HOST
    with (
        pytest.raises(AuthenticationFailed, match=at_client),
        AdminClient([address_of(node, host)], timeout_s=3, security=security) as admin,
    ):
        admin.describe_cluster()
    (line,) = wait_until(lambda: refused_by(node)[len(before) :] or None, 10, "the broker's line")
    assert at_broker in line


def refused_by(node: LocalNode) -> list[str]:
    """The lines of a node about clients whose handshake failed."""
    return [x for x in node.log_file.read_text().splitlines() if "SSL handshake: failed" in x]


def test_a_client_that_does_not_speak_tls_is_cut(cluster: LocalCluster) -> None:
    with pytest.raises(Unreachable), AdminClient([cluster.node(1).address], timeout_s=1) as admin:
        admin.describe_cluster()
    wait_until(lambda: "does not speak TLS" in refused_by(cluster.node(1))[-1], 10, "the line")


def test_no_private_key_is_in_a_log(cluster: LocalCluster) -> None:
    for node in cluster.nodes:
        assert "PRIVATE KEY" not in node.log_file.read_text()


def alter(cluster: LocalCluster, node_id: int, **stores: str) -> None:
    """Sets the key store of the listener `SSL`, by librdkafka. Raises `KafkaException`."""
    from confluent_kafka.admin import AdminClient as Librdkafka
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    changes = [
        ConfigEntry(
            f"listener.name.ssl.ssl.keystore.{name}",
            value,
            incremental_operation=AlterConfigOpType.SET,
        )
        for name, value in stores.items()
    ]
    kind = ConfigResource.Type.BROKER
    resource = ConfigResource(kind, str(node_id), incremental_configs=changes)
    admin = Librdkafka(
        librdkafka(cluster, **{"bootstrap.servers": address_of(cluster.node(node_id))})
    )
    (answer,) = admin.incremental_alter_configs([resource]).values()
    answer.result(30)


def shown_by(cluster: LocalCluster, node: LocalNode) -> bytes:
    """The certificate that a node shows to a new connection."""
    own = cluster.security.key_store("admin")
    context = ssl.create_default_context(cafile=str(cluster.security.ca_pem))
    context.load_cert_chain(own)
    with (
        socket.create_connection((HOST, node.peer_port), 10) as sock,
        context.wrap_socket(sock, server_hostname=HOST) as tls,
    ):
        found = tls.getpeercert(binary_form=True)
    assert found is not None
    return found


def test_a_key_store_is_replaced_by_a_request_and_a_bad_one_is_refused(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    from confluent_kafka import KafkaException

    authority = Authority.kept_in(cluster.security.directory / "ca.key.pem")
    node, path, bad = cluster.node(3), tmp_path / "new.pem", tmp_path / "bad.pem"
    replace_file(path, authority.issue("node-3", HOSTS), secret=True)
    replace_file(bad, Authority.create().issue("node-3", HOSTS), secret=True)
    before = shown_by(cluster, node)
    with pytest.raises(KafkaException, match="do not trust each other"):
        alter(cluster, 3, location=str(bad))
    assert shown_by(cluster, node) == before
    alter(cluster, 3, location=str(path))
    wait_until(lambda: shown_by(cluster, node) != before, 10, "the new certificate")
    new = shown_by(cluster, node)
    cluster.wait_for_isr(TOPIC, 0, {1, 2, 3})
    replace_file(path, authority.issue("node-3", HOSTS), secret=True)
    alter(cluster, 3, location=str(path))
    wait_until(lambda: shown_by(cluster, node) not in (before, new), 10, "the file read anew")
    assert "Invalid dynamic" not in node.log_file.read_text()

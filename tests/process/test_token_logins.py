"""Clients of several families log in by tokens of an issuer, and so do brokers to each other."""

import time
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokens
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer
from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.issuer import Issuer
from tests.login_cluster import ALICE, BEARER_MODULE, admin_of, login_cluster, token_config
from tidelog.client import AdminClient, ClientSecurity
from tidelog.client.core.errors import AuthenticationFailed
from tidelog.testing import LocalCluster
from tidelog.testing.files import replace_file
from tidelog.testing.waiting import wait_until

pytestmark = pytest.mark.process

LASTS_S = 8.0
"""Of a token: sessions end while the tests run."""


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer() as issuer:
        issuer.lasts_s = LASTS_S
        yield issuer


@pytest.fixture(scope="module")
def cluster(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    data_dir = tmp_path_factory.mktemp("tokens") / "cluster"
    with login_cluster(data_dir, token_config(issuer)) as cluster:
        with admin_of(cluster.nodes[0].address, *ALICE) as admin:
            admin.create_topic("orders", partitions=1, replication_factor=3)
        yield cluster


def librdkafka(cluster: LocalCluster, issuer: Issuer) -> dict[str, object]:
    """The login of librdkafka, with a callback of the application."""

    def give_token(_: str) -> tuple[str, float]:
        token = issuer.token("carol")
        return token, time.time() + LASTS_S

    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": give_token,
    }


def ours(issuer: Issuer, cluster: LocalCluster, **changes: str) -> AdminClient:
    """Our client, which asks the token endpoint."""
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": issuer.token_url,
        "sasl.jaas.config": f'{BEARER_MODULE} clientId="alice" clientSecret="alice-s3cret";',
        **changes,
    }
    security = ClientSecurity(settings)
    return AdminClient([cluster.nodes[0].address], timeout_s=5, security=security)


def test_librdkafka_produces_and_consumes_over_the_end_of_its_tokens(
    cluster: LocalCluster, issuer: Issuer
):
    """Goal: while brokers renew their sessions too, nothing that acks=all promised is lost."""
    login = librdkafka(cluster, issuer)
    producer = Producer({**login, "acks": "all"}, logger=None)
    sent: list[bytes] = []

    def produce() -> bool:
        value = b"rd-%d" % len(sent)
        producer.produce("orders", value)
        assert producer.flush(20) == 0
        sent.append(value)
        return issuer.asked.count("/token") > before + 3

    before = issuer.asked.count("/token")
    wait_until(produce, 40, "each broker to have taken another token")
    settings = {**login, "group.id": "readers", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings, logger=None)
    consumer.subscribe(["orders"])
    found: list[bytes] = []

    def read() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value())
        return len(found) == len(sent)

    wait_until(read, 40, "all records")
    consumer.close()
    assert found == sent


def test_our_client_asks_the_endpoint_or_reads_a_file(
    cluster: LocalCluster, issuer: Issuer, tmp_path_factory: pytest.TempPathFactory
):
    with ours(issuer, cluster) as admin:
        assert len(admin.describe_cluster().nodes) == 3
    file = tmp_path_factory.mktemp("token") / "token"
    replace_file(file, issuer.token("alice"), secret=True)
    with ours(
        issuer, cluster, **{"sasl.oauthbearer.token.endpoint.url": f"file://{file}"}
    ) as admin:
        assert len(admin.describe_cluster().nodes) == 3


def test_a_bad_token_is_an_error_at_the_client_and_one_line_at_the_broker(
    cluster: LocalCluster, issuer: Issuer, tmp_path_factory: pytest.TempPathFactory
):
    file = tmp_path_factory.mktemp("token") / "token"
    forged = issuer.token("alice", aud="payments")
    replace_file(file, forged, secret=True)
    settings = {"sasl.oauthbearer.token.endpoint.url": f"file://{file}"}
    with (
        pytest.raises(AuthenticationFailed, match="invalid_token"),
        ours(issuer, cluster, **settings) as admin,
    ):
        admin.describe_cluster()
    log_file = cluster.nodes[0].log_file
    wait_until(lambda: b"for another audience" in log_file.read_bytes(), 5, "the line")
    for node in cluster.nodes:
        for kept in (node.log_file, *node.data_dir.rglob("*.jsonl")):
            text = kept.read_bytes()
            assert forged.encode() not in text
            assert b"s3cret" not in text, kept


def test_kafka_python_and_aiokafka_log_in(cluster: LocalCluster, issuer: Issuer):
    import asyncio

    class Tokens(AbstractTokenProvider):
        def token(self) -> str:
            return issuer.token("dave")

    class LaterTokens(AioTokens):
        async def token(self) -> str:
            return issuer.token("erin")

    login = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
    }

    async def produce() -> None:
        producer = AIOKafkaProducer(**login, sasl_oauth_token_provider=LaterTokens())
        async with producer:
            await producer.send_and_wait("orders", b"aio")

    asyncio.run(produce())
    consumer = KafkaConsumer(
        "orders",
        **login,
        sasl_oauth_token_provider=Tokens(),
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
    )
    assert any(record.value == b"aio" for record in consumer)
    consumer.close()

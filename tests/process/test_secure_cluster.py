"""What `tidelog up --secure` makes: clients log in over TLS, and an authorizer decides."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient as ConfluentAdmin
from confluent_kafka.admin import NewTopic

from tests.process.test_command_line import report, tidelog
from tidelog.testing import LocalCluster
from tidelog.testing.waiting import wait_until

pytestmark = pytest.mark.process

PATIENCE_S = 30


def librdkafka(cluster: LocalCluster, user: str, **more: str) -> dict[str, str]:
    """The properties of librdkafka for a user, from what `up` prints."""
    security = cluster.security.describe()
    (found,) = (each for each in security["users"] if each["name"] == user)
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": security["protocol"],
        "sasl.mechanism": security["mechanism"],
        "sasl.username": user,
        "sasl.password": found["password"],
        "ssl.ca.location": security["ca_pem"],
        **more,
    }


def produce(cluster: LocalCluster, user: str, topic: str, values: list[bytes]) -> set[str | None]:
    """Writes the values in partition 0; returns the outcomes' names."""
    producer = Producer(librdkafka(cluster, user, **{"enable.idempotence": "true"}))
    outcomes: set[str | None] = set()

    def report(error: KafkaError | None, _: object) -> None:
        outcomes.add(None if error is None else error.name())

    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=report)
    assert producer.flush(PATIENCE_S) == 0
    return outcomes


def consume(cluster: LocalCluster, user: str, topic: str, count: int) -> list[bytes]:
    """Reads as a group of the user's name. Raises the error of the topic or the group."""
    settings = {"group.id": user, "auto.offset.reset": "earliest"}
    consumer = Consumer(librdkafka(cluster, user, **settings), logger=None)
    consumer.subscribe([topic])
    values: list[bytes] = []
    try:
        while len(values) < count:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            if message.error() is not None:
                raise Refused(message.error().name())
            values.append(message.value())
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return values


class Refused(Exception):
    """A broker refused a consumer."""


def test_the_administrator_does_everything_and_a_kill_loses_nothing(
    secure_cluster: LocalCluster,
) -> None:
    admin = ConfluentAdmin(librdkafka(secure_cluster, "admin"))
    (created,) = admin.create_topics([NewTopic("kept", 1, 3)]).values()
    created.result(PATIENCE_S)
    secure_cluster.wait_for_isr("kept", 0, {1, 2, 3})
    values = [b"%d" % number for number in range(200)]
    assert produce(secure_cluster, "admin", "kept", values[:100]) == {None}
    leader = secure_cluster.wait_for_leader("kept", 0)
    secure_cluster.kill(leader)
    assert produce(secure_cluster, "admin", "kept", values[100:]) == {None}
    assert consume(secure_cluster, "admin", "kept", 200) == values
    secure_cluster.start_node(leader)
    secure_cluster.wait_for_isr("kept", 0, {1, 2, 3})
    assert "kept" in ConfluentAdmin(librdkafka(secure_cluster, "admin")).list_topics().topics


def test_the_guest_may_do_what_an_entry_allows(secure_cluster: LocalCluster) -> None:
    secure_cluster.create_topic("shown", partitions=1, replication_factor=3)
    denied = {KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED).name()}
    assert produce(secure_cluster, "guest", "shown", [b"1"]) == denied
    with pytest.raises(Refused, match="GROUP_AUTHORIZATION_FAILED"):
        consume(secure_cluster, "guest", "shown", 1)
    admin, guest = map(secure_cluster.security.properties_file, ("admin", "guest"))
    asked = ("--bootstrap-server", secure_cluster.bootstrap_servers, "--command-config")
    assert report("topics", "list", *asked, guest) == []
    assert tidelog("topics", "create", "mine", *asked, guest, code=1).stderr
    add = ("acls", "add", "--allow-principal", "User:guest", "--operation", "read")
    tidelog(*add, "--operation", "write", "--topic", "shown", *asked, admin)
    tidelog(*add, "--group", "guest", *asked, admin)
    wait_until(lambda: report("topics", "list", *asked, guest) == ["shown"], 5, "the entries")
    assert produce(secure_cluster, "guest", "shown", [b"2"]) == {None}
    assert consume(secure_cluster, "guest", "shown", 1) == [b"2"]


def test_a_wrong_password_is_named_and_leaves_one_line(secure_cluster: LocalCluster) -> None:
    node = secure_cluster.node(1)
    before = failures_in(node.log_file)
    errors: list[KafkaError] = []
    wrong = {"sasl.password": "wrong-s3cret", "bootstrap.servers": node.address}
    more: dict[str, Any] = {"error_cb": errors.append, "logger": None}
    producer = Producer({**librdkafka(secure_cluster, "admin", **wrong), **more})

    def has_the_reason() -> bool:
        producer.poll(0.1)
        return any("invalid credentials" in error.str() for error in errors)

    wait_until(has_the_reason, PATIENCE_S, "the reason")
    assert failures_in(node.log_file)[len(before) :]
    for each in secure_cluster.nodes:
        assert "s3cret" not in each.log_file.read_text()


def failures_in(log_file: Path) -> list[str]:
    """The lines of a node about wrong passwords."""
    return [line for line in log_file.read_text().splitlines() if "a wrong password" in line]


def test_kafka_python_and_aiokafka_log_in(secure_cluster: LocalCluster) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from kafka import KafkaConsumer, KafkaProducer

    secure_cluster.create_topic("python", partitions=1, replication_factor=3)
    found = librdkafka(secure_cluster, "admin")
    login: dict[str, Any] = {
        "bootstrap_servers": found["bootstrap.servers"],
        "security_protocol": found["security.protocol"],
        "sasl_mechanism": found["sasl.mechanism"],
        "sasl_plain_username": found["sasl.username"],
        "sasl_plain_password": found["sasl.password"],
    }
    authority = found["ssl.ca.location"]
    reading = {"group_id": "python", "auto_offset_reset": "earliest"}
    producer = KafkaProducer(**login, ssl_cafile=authority)
    producer.send("python", b"1").get(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer("python", **login, **reading, ssl_cafile=authority)
    assert next(consumer).value == b"1"
    consumer.close()

    async def on_a_loop() -> bytes:
        context = ssl.create_default_context(cafile=authority)
        async with AIOKafkaProducer(**login, ssl_context=context) as producer:
            await producer.send_and_wait("python", b"2")
        async with AIOKafkaConsumer("python", **login, **reading, ssl_context=context) as consumer:
            return (await asyncio.wait_for(consumer.getone(), PATIENCE_S)).value

    assert asyncio.run(on_a_loop()) == b"2"


def test_one_command_makes_a_protected_cluster(data_dir: Path) -> None:
    """And it stays one, with its users, when it is started again."""
    options = ("--data-dir", data_dir, "--profile", "test", "--detach")
    made = report("up", "--brokers", "1", "--base-port", "0", "--secure", *options)["security"]
    assert (made["protocol"], made["mechanism"]) == ("SASL_SSL", "SCRAM-SHA-512")
    assert [user["name"] for user in made["users"]] == ["admin", "guest"]
    tidelog("topics", "create", "made", "--data-dir", data_dir)
    tidelog("down", "--data-dir", data_dir)
    again = report("up", *options)
    assert again["security"] == made
    properties = made["users"][0]["properties_file"]
    given = ("--bootstrap-server", again["bootstrap_servers"], "--command-config", properties)
    assert report("topics", "list", *given) == ["made"]
    assert report("status", "--data-dir", data_dir)["healthy"]

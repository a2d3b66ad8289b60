"""Clients that log in to real nodes, and nodes that log in to each other (`login_cluster`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient as ConfluentAdmin
from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.login_cluster import ALICE, admin_of, login_cluster, settings
from tidelog.client.core.errors import AuthenticationFailed
from tidelog.testing import LocalCluster
from tidelog.testing.waiting import wait_until

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with login_cluster(tmp_path_factory.mktemp("logins") / "cluster") as cluster:
        yield cluster


def alter(cluster: LocalCluster, *changes: object) -> None:
    """Changes users of SCRAM as an administrator does."""
    admin = ConfluentAdmin(settings(cluster, *ALICE))
    for future in admin.alter_user_scram_credentials(list(changes)).values():
        future.result(10)


def upsertion(name: str, password: str) -> UserScramCredentialUpsertion:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    return UserScramCredentialUpsertion(name, info, password.encode())


def test_clients_produce_and_consume_over_the_end_of_their_sessions(cluster: LocalCluster):
    alter(cluster, upsertion("bob", "bob-s3cret"))
    with admin_of(cluster.nodes[0].address, *ALICE) as admin:
        admin.create_topic("orders", partitions=3, replication_factor=3)
    for mechanism, name in (("PLAIN", "alice"), ("SCRAM-SHA-512", "bob")):
        login = settings(cluster, mechanism, name, f"{name}-s3cret")
        producer = Producer({**login, "acks": "all"})
        for number in range(30):
            producer.produce("orders", f"{name}-{number}")
        assert producer.flush(20) == 0
    consumer = Consumer(
        {**login, "group.id": "readers", "auto.offset.reset": "earliest"}, logger=None
    )
    consumer.subscribe(["orders"])
    found: set[bytes] = set()

    def read() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.add(message.value())
        return len(found) == 60

    wait_until(read, 40, "all records")
    consumer.close()


def test_a_changed_password_reaches_every_node(cluster: LocalCluster):
    alter(cluster, upsertion("carol", "first-s3cret"))
    alter(cluster, upsertion("carol", "second-s3cret"))
    for node in cluster.nodes:
        wait_until(lambda node=node: lets_in(node.address, "second-s3cret"), 5, "the new password")
        assert not lets_in(node.address, "first-s3cret")
    alter(cluster, UserScramCredentialDeletion("carol", ScramMechanism.SCRAM_SHA_512))
    for node in cluster.nodes:
        wait_until(lambda node=node: not lets_in(node.address, "second-s3cret"), 5, "no password")


def lets_in(address: str, password: str) -> bool:
    """Whether a node accepts this password of `carol`."""
    try:
        with admin_of(address, "SCRAM-SHA-512", "carol", password) as admin:
            admin.describe_cluster()
    except AuthenticationFailed:
        return False
    return True


def test_a_wrong_password_is_one_line_and_no_secret_is_anywhere(cluster: LocalCluster):
    node = cluster.nodes[0]
    before = failures_in(node.log_file)
    with (
        pytest.raises(AuthenticationFailed, match="Invalid username or password") as refused,
        admin_of(node.address, "PLAIN", "alice", "wrong-s3cret") as admin,
    ):
        admin.describe_cluster()
    assert "s3cret" not in refused.value.message + refused.value.hint
    wait_until(lambda: failures_in(node.log_file) == before + 1, 5, "the line")
    for each in cluster.nodes:
        kept = (each.log_file, *each.data_dir.rglob("*.jsonl"), *each.data_dir.rglob("*.log"))
        for file in kept:
            assert b"s3cret" not in file.read_bytes(), file


def failures_in(log_file: Path) -> int:
    """How many logins have failed."""
    text = log_file.read_text(encoding="utf-8")
    return text.count("Invalid username or password")

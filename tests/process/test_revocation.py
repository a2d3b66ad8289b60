"""Users and rights that change while nodes run: every node follows, also after a failover.

How fast they do is measured by `bench/revocation.py`, and not judged here.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from tests.process.test_command_line import report, tidelog
from tests.process.test_secure_cluster import librdkafka
from tidelog.client import AdminClient, ClientSecurity
from tidelog.client.acls import Acl, AclQuery
from tidelog.client.core.errors import AuthenticationFailed
from tidelog.model import Mechanism, Secret
from tidelog.testing import LocalCluster
from tidelog.testing.cluster_state import LocalNode
from tidelog.testing.files import replace_file
from tidelog.testing.waiting import wait_until

pytestmark = pytest.mark.process

PATIENCE_S = 60
SCRAM = Mechanism.SCRAM_SHA_512


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Sessions end after three seconds."""
    directory = tmp_path_factory.mktemp("revocation") / "cluster"
    config = {"connections.max.reauth.ms": "3000"}
    with LocalCluster(brokers=3, data_dir=directory, secure=True, config=config) as cluster:
        cluster.create_topic("orders", partitions=1, replication_factor=3)
        yield cluster


def client_of(cluster: LocalCluster, node: LocalNode, user: str, password: str) -> AdminClient:
    """A user's connection to one node."""
    settings = dict(cluster.security.client("guest").settings)
    known = cluster.security.password("guest")
    jaas = settings["sasl.jaas.config"]
    settings["sasl.jaas.config"] = jaas.replace("guest", user).replace(known, password)
    return AdminClient([node.address], timeout_s=10, security=ClientSecurity(settings))


def lets_in(cluster: LocalCluster, node: LocalNode, user: str, password: str) -> bool:
    """Whether a node accepts a password."""
    try:
        with client_of(cluster, node, user, password) as client:
            client.describe_cluster()
    except AuthenticationFailed:
        return False
    return True


def shows(cluster: LocalCluster, node: LocalNode, user: str, password: str) -> bool:
    """Whether a node lets a user see the topic."""
    with client_of(cluster, node, user, password) as client:
        return client.list_topics() == ["orders"]


def check_changes_reach_all(cluster: LocalCluster, user: str) -> None:
    """A password, another one, a right, and their ends; on each node, in this order."""
    right = Acl("TOPIC", "orders", "LITERAL", f"User:{user}", "*", "DESCRIBE", "ALLOW")
    with cluster.admin(PATIENCE_S) as admin:
        for password, old in (("first", "none"), ("second", "first")):
            admin.users.add(user, SCRAM, Secret(password))
            for node in cluster.nodes:
                wait_until(
                    lambda node=node, password=password: lets_in(cluster, node, user, password),
                    PATIENCE_S,
                    f"`{password}` at node {node.node_id}",
                )
                assert not lets_in(cluster, node, user, old)
        for node in cluster.nodes:
            assert not shows(cluster, node, user, "second")
        for is_allowed in (True, False):
            if is_allowed:
                admin.acls.add([right])
            else:
                admin.acls.remove(AclQuery(principal=f"User:{user}"))
            for node in cluster.nodes:
                wait_until(
                    lambda node=node, wanted=is_allowed: (
                        shows(cluster, node, user, "second") is wanted
                    ),
                    PATIENCE_S,
                    f"the entry at node {node.node_id}",
                )
        admin.users.remove(user, SCRAM)
        for node in cluster.nodes:
            wait_until(
                lambda node=node: not lets_in(cluster, node, user, "second"),
                PATIENCE_S,
                f"the removal at node {node.node_id}",
            )


def test_changes_reach_every_node_also_after_a_failover(cluster: LocalCluster) -> None:
    check_changes_reach_all(cluster, "ada")
    with cluster.admin(PATIENCE_S) as admin:
        leader = admin.describe_quorum().leader_id
    cluster.kill(leader)
    cluster.start_node(leader)
    cluster.wait_until_ready(PATIENCE_S)
    cluster.wait_for_isr("orders", 0, {1, 2, 3}, timeout_s=PATIENCE_S)
    check_changes_reach_all(cluster, "eve")


def test_a_removed_users_producer_is_let_in_no_more(cluster: LocalCluster, tmp_path: Path) -> None:
    """Method: the command line makes and removes the user; a producer that was open before it
    works until its session ends, and then learns why it does not any more."""
    password = tmp_path / "password"
    replace_file(password, "carol-s3cret\n", secret=True)
    where = ("--data-dir", cluster.data_dir)
    added = report("users", "add", "carol", "--password-file", password, *where)
    assert added == [{"user": "carol", "mechanism": str(SCRAM), "iterations": 4096}]
    add = ("acls", "add", "--allow-principal", "User:carol", "--operation", "write")
    tidelog(*add, "--topic", "orders", *where)
    for node in cluster.nodes:
        wait_until(
            lambda node=node: (
                lets_in(cluster, node, "carol", "carol-s3cret")
                and shows(cluster, node, "carol", "carol-s3cret")
            ),
            PATIENCE_S,
            "the user",
        )
    errors: list[str] = []
    outcomes: list[KafkaError | None] = []
    settings = librdkafka(cluster, "guest", **{"sasl.username": "carol"})
    producer = Producer(
        settings | {"sasl.password": "carol-s3cret", "error_cb": lambda e: errors.append(e.str())},
        logger=None,
    )

    def produce() -> KafkaError | None:
        producer.produce("orders", b"x", on_delivery=lambda error, _: outcomes.append(error))
        wait_until(lambda: producer.poll(0.1) >= 0 and producer.flush(1) == 0, PATIENCE_S, "it")
        return outcomes[-1]

    assert produce() is None
    assert report("users", "remove", "carol", *where) == added
    for node in cluster.nodes:
        wait_until(
            lambda node=node: not lets_in(cluster, node, "carol", "carol-s3cret"),
            PATIENCE_S,
            "the removal",
        )

    def is_out() -> bool:
        producer.poll(0.1)
        return any("invalid credentials" in error for error in errors)

    wait_until(is_out, PATIENCE_S, "the end of the session")
    producer.purge()

"""Certificates, and the authority itself, are replaced on a running cluster as the how-to says.

Producers, a consumer and an administrator work meanwhile: over SASL_SSL, and with a certificate.
No request of theirs may fail. Connections that are open keep their certificates, so a client
connects anew all the time, and in the end each node is started anew.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.process.test_secure_cluster import librdkafka
from tidelog.client import AdminClient, ClientSecurity
from tidelog.testing import LocalCluster
from tidelog.testing.certificates import Authority
from tidelog.testing.files import replace_file
from tidelog.testing.security import HOSTS, USERS, node_name
from tidelog.testing.waiting import wait_until

pytestmark = pytest.mark.process

TOPIC = "orders"
PATIENCE_S = 60
BATCH = 20
TAKEN = "took the new certificates"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, data_dir=tmp_path / "cluster", secure=True) as cluster:
        cluster.create_topic(TOPIC, partitions=1, replication_factor=3)
        yield cluster


class Load:
    """Work in threads of its own until `stop`; what fails is kept."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        # Rounds of each worker that went well.
        self.done: dict[str, int] = {}
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, name: str, work: Callable[[], None]) -> None:
        """Repeats a piece of work."""
        self.done[name] = 0

        def run() -> None:
            while not self._stop.is_set():
                try:
                    work()
                except Exception as error:
                    self.failures.append(f"{name}: {error!r}")
                    return
                self.done[name] += 1

        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()

    def goes_on(self) -> None:
        """Waits until each worker has done something more."""
        before = dict(self.done)
        wait_until(
            lambda: self.failures or all(self.done[name] > before[name] for name in before),
            PATIENCE_S,
            "work of each client",
        )
        assert self.failures == []

    def stop(self) -> None:
        """Ends the work."""
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def producing(settings: dict[str, Any]) -> tuple[Callable[[], None], list[object]]:
    """Sends and waits, a few records at a time; also the errors that librdkafka met."""
    errors: list[object] = []
    producer = Producer({**settings, "acks": "all", "log_level": 0, "error_cb": errors.append})

    def work() -> None:
        outcomes: list[object] = []
        for _ in range(BATCH):
            producer.produce(TOPIC, b"x", on_delivery=lambda error, _: outcomes.append(error))
        assert producer.flush(PATIENCE_S) == 0
        assert outcomes == [None] * BATCH, outcomes

    return work, errors


def consuming(settings: dict[str, Any]) -> tuple[Callable[[], None], Callable[[], None]]:
    """Reads in a group and commits; also what ends it."""
    more = {"group.id": "readers", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**settings, **more, "log_level": 0})
    consumer.subscribe([TOPIC])

    def work() -> None:
        message = consumer.poll(PATIENCE_S)
        assert message is not None and message.error() is None, message
        consumer.commit(message, asynchronous=False)

    return work, consumer.close


def connecting(cluster: LocalCluster, trusted: Path) -> Callable[[], None]:
    """Logs in at each node by a new connection and asks something."""
    settings = {**cluster.security.client().settings, "ssl.truststore.location": str(trusted)}

    def work() -> None:
        for node in cluster.nodes:
            security = ClientSecurity(settings)
            with AdminClient([node.address], timeout_s=PATIENCE_S, security=security) as admin:
                assert admin.describe_topic(TOPIC).name == TOPIC

    return work


def isr_of(cluster: LocalCluster) -> set[int]:
    """By a client that trusts what is in the file now; the cluster's own one has read it before."""
    with AdminClient(
        cluster.bootstrap_servers.split(","),
        timeout_s=PATIENCE_S,
        security=ClientSecurity(cluster.security.client().settings),
    ) as admin:
        return set(admin.describe_topic(TOPIC).partitions[0].isr)


def with_certificate(cluster: LocalCluster, trusted: Path, own: Path) -> dict[str, Any]:
    """librdkafka at the second listener."""
    return {
        "bootstrap.servers": ",".join(f"127.0.0.1:{node.peer_port}" for node in cluster.nodes),
        "security.protocol": "SSL",
        "ssl.ca.location": str(trusted),
        "ssl.certificate.location": str(own),
        "ssl.key.location": str(own),
    }


def replace_all(cluster: LocalCluster, *, ca: str = "", signer: Authority | None = None) -> None:
    """Puts new files in the place of the nodes' old ones, and waits until each node has them for
    its three listeners."""
    before = {node.node_id: node.log_file.read_text().count(TAKEN) for node in cluster.nodes}
    if ca:
        replace_file(cluster.security.ca_pem, ca)
    for node in cluster.nodes:
        if signer is not None:
            name = node_name(node.node_id)
            replace_file(cluster.security.key_store(name), signer.issue(name, HOSTS), secret=True)
    for node in cluster.nodes:
        wait_until(
            lambda node=node: node.log_file.read_text().count(TAKEN) >= before[node.node_id] + 3,
            PATIENCE_S,
            f"the new certificates of node {node.node_id}",
        )


def test_certificates_and_the_authority_are_replaced_under_load(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    key, both = cluster.security.directory / "ca.key.pem", tmp_path / "both.pem"
    old = Authority.kept_in(key)
    key.unlink()
    # Of the same name: what distinguishes them are their keys.
    new = Authority.kept_in(key)
    replace_file(both, old.pem + new.pem)
    own = {name: cluster.security.key_store(USERS[0]) for name in ("old", "new")}
    own["new"] = tmp_path / "admin-new.pem"
    replace_file(own["new"], new.issue(USERS[0]), secret=True)
    login = librdkafka(cluster, USERS[0], **{"ssl.ca.location": str(both)})
    load = Load()
    by_password, errors = producing(login)
    reading, close = consuming(login)
    load.start("producer by password", by_password)
    load.start("consumer", reading)
    load.start("new connections", connecting(cluster, both))
    by_certificate, more_errors = producing(with_certificate(cluster, both, own["old"]))
    load.start("producer by certificate", by_certificate)
    load.goes_on()

    # Trust both authorities; renew what the old one has signed.
    replace_all(cluster, ca=old.pem + new.pem, signer=old)
    load.goes_on()
    # Certificates of the new one.
    replace_all(cluster, signer=new)
    load.goes_on()
    renewed, last_errors = producing(with_certificate(cluster, both, own["new"]))
    load.start("producer by the new certificate", renewed)
    load.goes_on()
    # Trust the new one only.
    replace_all(cluster, ca=new.pem)
    load.goes_on()
    load.stop()
    assert load.failures == []
    assert errors == more_errors == last_errors == []
    close()
    for node in cluster.nodes:
        assert "kept the old ones" not in node.log_file.read_text()

    # Nothing is left that needs the old authority.
    for node in cluster.nodes:
        cluster.restart(node.node_id)
        wait_until(lambda: isr_of(cluster) == {1, 2, 3}, PATIENCE_S, "all replicas in sync")
    replace_file(both, new.pem)
    connecting(cluster, both)()
    for name, is_accepted in (("new", True), ("old", False)):
        settings = with_certificate(cluster, both, own[name])
        assert can_produce(settings) is is_accepted, name


def can_produce(settings: dict[str, Any]) -> bool:
    """Whether a record is taken; a handshake that fails is the other answer."""
    outcomes: list[object] = []
    errors: list[str] = []
    more = {"log_level": 0, "error_cb": lambda error: errors.append(error.name())}
    producer = Producer({**settings, **more})
    producer.produce(TOPIC, b"x", on_delivery=lambda error, _: outcomes.append(error))

    def is_over() -> bool:
        producer.poll(0.1)
        return bool(outcomes) or "_ALL_BROKERS_DOWN" in errors

    wait_until(is_over, PATIENCE_S, "an outcome")
    producer.purge()
    return outcomes == [None]

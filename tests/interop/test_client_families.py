"""Families of clients against `tidelog up --secure`: by password and by certificate, and refused.

kcat, kafkajs and franz-go take part where their programs are. Spark's connector has its part at the
end; Kafka's tools by password are in `test_secure_cluster`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.interop.connector import Connector, ConnectorError
from tests.interop.families import VALUES, Family, Java, Login, families
from tests.interop.records import START_TIMEOUT_S
from tidelog.testing import LocalCluster
from tidelog.testing.certificates import Authority
from tidelog.testing.cluster_state import HOST
from tidelog.testing.files import replace_file
from tidelog.testing.waiting import wait_until

NAMES = [family.name for family in families(Path())]
ALIAS = "localhost"
"""Another name of this machine, which the node's certificate does not have."""


@dataclass(frozen=True)
class Place:
    """A protected node, and logins of its clients, good and bad."""

    cluster: LocalCluster
    logins: Mapping[str, Login]

    def failures(self) -> list[str]:
        """The node's lines about clients that it did not let in."""
        lines = self.cluster.node(1).log_file.read_text().splitlines()
        return [line for line in lines if "failed (" in line]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("families")
    config = {"group.initial.rebalance.delay.ms": "0"}
    cluster = LocalCluster(
        brokers=1, data_dir=directory / "cluster", profile="default", secure=True, config=config
    )
    security = cluster.security
    authority = Authority.kept_in(security.directory / "ca.key.pem")
    replace_file(security.key_store("node-1"), authority.issue("node-1", [HOST]), secret=True)
    expired, other = directory / "expired.pem", directory / "other.pem"
    begin, lifetime = datetime.now(UTC) - timedelta(days=9), timedelta(days=1)
    replace_file(expired, authority.issue("admin", begin=begin, lifetime=lifetime), secret=True)
    replace_file(other, Authority.create().pem)
    cluster.start(START_TIMEOUT_S)
    node, ca = cluster.node(1), security.ca_pem
    known = Login((node.address,), ca, "admin", security.password("admin"))
    shown = Login((f"{HOST}:{node.peer_port}",), ca, certificate=security.key_store("admin"))
    logins = {
        "password": known,
        "certificate": shown,
        "wrong password": replace(known, password="wrong-s3cret"),
        "expired certificate": replace(shown, certificate=expired),
        "wrong host": replace(known, brokers=(node.address.replace(HOST, ALIAS),)),
        "wrong authority": replace(known, ca=other),
    }
    yield Place(cluster, logins)
    cluster.close()


@pytest.fixture
def family(request: pytest.FixtureRequest, tmp_path: Path) -> Family:
    return next(each for each in families(tmp_path) if each.name == request.param)


@pytest.mark.parametrize(
    ("family", "way"),
    [
        (name, way)
        for name in NAMES
        for way in ("password", "certificate")
        if (name, way) != (Java.name, "password")
    ],
    indirect=["family"],
)
def test_a_client_creates_writes_reads_and_lists(place: Place, family: Family, way: str) -> None:
    topic = f"{family.name}-{way}"
    done = family.work(place.logins[way], topic)
    assert done.read == VALUES
    assert topic in done.topics and topic in done.groups


AT_BROKER = {
    "wrong password": ("a wrong password",),
    "expired certificate": ("certificate has expired",),
    # Clients differ in what they say before they hang up, if anything.
    "wrong host": ("alert bad certificate", "alert certificate unknown", "the peer left"),
    "wrong authority": (
        *("alert unknown ca", "alert bad certificate", "alert certificate unknown"),
        "the peer left",
    ),
}
AT_CLIENT = {
    "wrong password": ("invalid credentials", "authentication"),
    "expired certificate": ("expired", "closed"),
    "wrong host": ("certificate",),
    "wrong authority": ("certificate", "path"),
}

SILENT = {("kafka-python", "wrong password"): ("socket disconnected",)}
"""What kafka-python says when the connection's end is there before it has read the answer."""
LAST_ATTEMPT = {"kcat": ("the peer left", "unexpected message", "alert internal error")}
"""What a node may say of an attempt in the middle of which kcat's process ends: its TLS then sends
nothing more, or an alert before any greeting."""


@pytest.mark.parametrize("case", AT_BROKER)
@pytest.mark.parametrize("family", NAMES, indirect=True)
def test_a_client_that_does_not_belong_gets_a_reason(
    place: Place, family: Family, case: str
) -> None:
    """An error at the client, and at the node a line for each of its attempts."""
    before = len(place.failures())
    said = family.refusal(place.logins[case])
    words = AT_CLIENT[case] + SILENT.get((family.name, case), ())
    assert any(word in said.lower() for word in words), said
    assert "s3cret" not in said
    lines = wait_until(lambda: place.failures()[before:] or None, START_TIMEOUT_S, "the line")
    reasons = AT_BROKER[case]
    assert any(reason in line for reason in reasons for line in lines), lines
    reasons += LAST_ATTEMPT.get(family.name, ())
    assert all(any(reason in line for reason in reasons) for line in lines), lines
    assert "Traceback" not in place.cluster.node(1).log_file.read_text()


def spark_options(login: Login, topic: str) -> dict[str, str]:
    """The properties of Java's clients, as Spark takes them."""
    found = {"kafka.bootstrap.servers": login.bootstrap, "kafka.retries": "1"}
    return found | {f"kafka.{name}": value for name, value in Java.properties(login).items()}


@pytest.mark.parametrize("way", ["password", "certificate"])
def test_sparks_connector_writes_and_reads(place: Place, connector: Connector, way: str) -> None:
    topic = f"spark-{way}"
    options = spark_options(place.logins[way], topic)
    with place.cluster.admin() as admin:
        admin.create_topic(topic, partitions=1)
    rows = [[value] for value in VALUES]
    connector.do("write", rows=rows, schema="value string", options=options | {"topic": topic})
    reading = options | {"subscribe": topic, "startingOffsets": "earliest"}
    found = connector.do("rows", options=reading, columns=["CAST(value AS STRING) value"])
    # Two tasks write, each in its order.
    assert sorted(row["value"] for row in found) == VALUES


@pytest.mark.parametrize("case", AT_BROKER)
def test_sparks_connector_gets_a_reason(place: Place, connector: Connector, case: str) -> None:
    options = spark_options(place.logins[case], "none") | {"subscribe": "none"}
    before = len(place.failures())
    with pytest.raises(ConnectorError, match="Authentication"):
        connector.do("counts", options=options)
    lines = wait_until(lambda: place.failures()[before:] or None, START_TIMEOUT_S, "the line")
    assert all(any(reason in line for reason in AT_BROKER[case]) for line in lines), lines

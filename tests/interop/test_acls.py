"""Apache Kafka's `kafka-acls`, unmodified, against a cluster of Tidelog with an authorizer."""

from collections.abc import Iterator

import pytest

from tests.interop.java_tools import JavaTools
from tests.interop.records import START_TIMEOUT_S
from tidelog.client import AdminClient
from tidelog.client.acls import AclQuery
from tidelog.testing import LocalCluster

TOOL = "AclCommand"
CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("secured") / "nodes"
    with LocalCluster(brokers=2, data_dir=directory, config=CONFIG) as running:
        running.start(START_TIMEOUT_S)
        yield running


def test_entries_are_added_listed_and_removed(secured: LocalCluster) -> None:
    tools = JavaTools(secured.bootstrap_servers)
    added = tools.run(
        *(TOOL, "--add", "--allow-principal", "User:bob", "--consumer"),
        *("--topic", "orders", "--group", "billing"),
    )
    assert "ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)" in added
    tools.run(
        *(TOOL, "--add", "--deny-principal", "User:eve", "--operation", "All"),
        *("--topic", "or", "--resource-pattern-type", "prefixed", "--deny-host", "10.0.0.1"),
    )
    listed = tools.run(TOOL, "--list", "--topic", "orders", "--resource-pattern-type", "match")
    assert "principal=User:bob, host=*, operation=READ, permissionType=ALLOW" in listed
    assert "principal=User:eve, host=10.0.0.1, operation=ALL, permissionType=DENY" in listed
    with AdminClient([secured.bootstrap_servers.split(",")[0]]) as admin:
        found = {(each.resource_name, each.operation) for each in admin.acls.list(AclQuery())}
    assert found == {("orders", "READ"), ("orders", "DESCRIBE"), ("billing", "READ"), ("or", "ALL")}
    tools.run(TOOL, "--remove", "--force", "--topic", "orders")
    assert "User:bob" not in tools.run(TOOL, "--list", "--topic", "orders")

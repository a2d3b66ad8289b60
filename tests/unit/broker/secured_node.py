"""A node with an authorizer, clients of any principal, and entries for them."""

from typing import Any

from tests.unit.broker.one_node import OneNode, Wire
from tidelog.config.values import STANDARD_AUTHORIZER
from tidelog.errors import ErrorCode
from tidelog.model import Principal
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

ALL, READ, WRITE, CREATE, DELETE, DESCRIBE = 2, 3, 4, 5, 6, 8
TOPIC, GROUP, CLUSTER = 2, 3, 4
DENY, ALLOW = 2, 3


def a_node(**settings: str) -> OneNode:
    return OneNode(
        authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:ANONYMOUS", **settings
    )


def as_user(node: OneNode, name: str, listener: str = "PLAINTEXT") -> Wire:
    wire = node.client(listener)
    connection = node.broker.connections.get(wire.connection_id)
    assert connection is not None
    connection.principal = Principal("User", name)
    return wire


def entry(operation: int, name: str = "orders", **others: Any) -> dict[str, Any]:
    return {
        "resource_type": TOPIC,
        "resource_name": name,
        "resource_pattern_type": 3,
        "principal": "User:ada",
        "host": "*",
        "operation": operation,
        "permission_type": ALLOW,
    } | others


def add(node: OneNode, *entries: dict[str, Any], wire: Wire | None = None) -> list[ErrorCode]:
    response = (wire or node.client()).call(ApiKey.CREATE_ACLS, 3, creations=entries)
    return [error_of(each.error_code) for each in response.results]


def a_filter(**others: Any) -> dict[str, Any]:
    return {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    } | others


def metadata(
    wire: Wire, *names: str | None, operations: bool = False, creates: bool = False
) -> Any:
    topics = None if names == (None,) else [{"name": name, "topic_id": None} for name in names]
    return wire.call(
        ApiKey.METADATA,
        9 if operations else 12,
        topics=topics,
        allow_auto_topic_creation=creates,
        include_cluster_authorized_operations=operations,
        include_topic_authorized_operations=operations,
    )


def topics_of(response: Any) -> dict[str, ErrorCode]:
    return {topic.name: error_of(topic.error_code) for topic in response.topics}

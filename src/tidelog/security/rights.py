"""The rights that requests need, in the words and numbers of Kafka's access control lists.

An API declares its checks (`broker/api/checks.py`), each of which has a `Requirement`. A
requirement lists alternatives: one of its rights is enough (CREATE on the cluster, or CREATE on the
topic).

Source: KIP-11 and its successors; Kafka's documentation of authorization per protocol.
"""

from typing import Final, NamedTuple

from tidelog.wire.acl_values import Operation as Operation
from tidelog.wire.acl_values import ResourceType as ResourceType

SUPPORTED_OPERATIONS: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""What can be done to a resource of each type whose operations answers name."""

NOT_ASKED: Final = -(2**31)
"""Stands for the operations in an answer to a client that did not ask for them."""


def authorized_operations(resource: ResourceType, *, asked: bool) -> int:
    """All operations on such a resource, as a sum of powers of two (KIP-430), or `NOT_ASKED`. It is
    what every client may do as long as no check has shown less (`checks.Operations`)."""
    return (
        sum(1 << operation for operation in SUPPORTED_OPERATIONS[resource]) if asked else NOT_ASKED
    )


class Right(NamedTuple):
    """One operation on the resources of one type that a request names."""

    operation: Operation
    resource: ResourceType
    condition: str = ""
    """For which requests it is needed; empty for all of the API."""

    def __str__(self) -> str:
        condition = f" ({self.condition})" if self.condition else ""
        return f"{self.operation.name} {self.resource.name}{condition}"


Requirement = tuple[Right, ...]
"""Alternatives, of which one is enough."""


def on(operation: Operation, *resources: ResourceType, condition: str = "") -> Requirement:
    """The operation on a resource of any of these types."""
    return tuple(Right(operation, resource, condition) for resource in resources)

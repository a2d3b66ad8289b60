"""Access control entries: which of them a filter finds, and which may be written.

An entry protects the resources of one type that its pattern names: one name (LITERAL, where `*` is
every name) or all names with a prefix (PREFIXED, where `*` is a character). A filter has more kinds
of patterns: ANY finds entries of either kind with its name, MATCH those that would decide about a
resource of that name.

Source: KIP-11, KIP-290; Kafka's `AclControlManager`.
"""

from enum import IntEnum
from typing import Final, NamedTuple

from tidelog.metadata.records import AccessControlEntryRecord
from tidelog.wire.acl_values import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType

WILDCARD: Final = "*"


class AclEntry(NamedTuple):
    """An entry as clients give it, with the numbers of the wire."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class AclFilter(NamedTuple):
    """Which entries are meant; `None` is any text, and the empty text is itself."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int


def entry_of(record: AccessControlEntryRecord) -> AclEntry:
    """What a record says."""
    return AclEntry(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )


def matches(wanted: AclFilter, entry: AclEntry) -> bool:
    """Whether a filter finds an entry."""
    return (
        wanted.resource_type in (ResourceType.ANY, entry.resource_type)
        and wanted.operation in (Operation.ANY, entry.operation)
        and wanted.permission_type in (Permission.ANY, entry.permission_type)
        and wanted.principal in (None, entry.principal)
        and wanted.host in (None, entry.host)
        and _names(wanted, entry)
    )


def _names(wanted: AclFilter, entry: AclEntry) -> bool:
    name, pattern_type = wanted.resource_name, wanted.pattern_type
    if pattern_type not in (PatternType.ANY, PatternType.MATCH, entry.pattern_type):
        return False
    if name is None or name == entry.resource_name:
        return True
    if pattern_type != PatternType.MATCH:
        return False
    if entry.pattern_type == PatternType.LITERAL:
        return entry.resource_name == WILDCARD
    return name.startswith(entry.resource_name)


def fault_of_filter(wanted: AclFilter) -> str | None:
    """Why nothing can be found by this filter."""
    if wanted.resource_type not in tuple(ResourceType):
        return f"resource type `{wanted.resource_type}` is none"
    if wanted.pattern_type not in tuple(PatternType):
        return f"pattern type `{wanted.pattern_type}` is none"
    if wanted.operation not in tuple(Operation):
        return f"operation `{wanted.operation}` is none"
    if wanted.permission_type not in tuple(Permission):
        return f"permission type `{wanted.permission_type}` is none"
    return None


def fault_of_entry(entry: AclEntry, *, is_host: bool) -> str | None:
    """Why an entry is not written. `is_host`: whether its host is an address or `*`."""
    is_cluster = entry.resource_type == ResourceType.CLUSTER
    rules = (
        (_is_one(ResourceType, entry.resource_type), "the resource type must be one resource type"),
        (
            entry.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED),
            "the pattern type must be LITERAL or PREFIXED",
        ),
        (_is_one(Operation, entry.operation), "the operation must be one operation, or ALL"),
        (
            entry.permission_type in (Permission.DENY, Permission.ALLOW),
            "the permission must be ALLOW or DENY",
        ),
        (bool(entry.resource_name), "the resource name must not be empty"),
        (
            not is_cluster or entry.resource_name == CLUSTER_NAME,
            f"the only cluster resource is `{CLUSTER_NAME}`",
        ),
        (":" in entry.principal, "the principal must be `type:name`"),
        (is_host, "the host must be an IP address or `*`"),
        (
            not any(map(_has_controls, (entry.resource_name, entry.principal))),
            "control characters are not allowed",
        ),
    )
    return next((text for holds, text in rules if not holds), None)


def _is_one(kind: type[IntEnum], number: int) -> bool:
    """Whether a number stands for one member, and not, as `ANY`, for each of them."""
    return number in tuple(kind) and kind(number).name != "ANY"


def _has_controls(text: str) -> bool:
    return any(character < " " or character == "\x7f" for character in text)

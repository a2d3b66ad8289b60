"""What an administrator asks about access control entries.

Names are those that Kafka's `kafka-acls` prints: `TOPIC`, `READ`, `ALLOW`, `LITERAL`. Errors that
stay are `AdminError`.

Source: KIP-140, KIP-290.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from tidelog.client.blocking import Brokers
from tidelog.client.core.calls import request
from tidelog.client.core.errors import check
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.values import error_of


class ResourceKind(IntEnum):
    """What an entry protects; `ANY` in filters only."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclOperation(IntEnum):
    """What an entry is about; `ANY` in filters only."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Pattern(IntEnum):
    """How a name is meant; `ANY` and `MATCH` in filters only."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclPermission(IntEnum):
    """What an entry says; `ANY` in filters only."""

    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True)
class Acl:
    """An access control entry."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


@dataclass(frozen=True, slots=True)
class AclQuery:
    """Which entries are meant; `None` is any text."""

    resource: ResourceKind = ResourceKind.ANY
    name: str | None = None
    pattern: Pattern = Pattern.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    def fields(self) -> dict[str, object]:
        """As requests have them."""
        return {
            "resource_type_filter": int(self.resource),
            "resource_name_filter": self.name,
            "pattern_type_filter": int(self.pattern),
            "principal_filter": self.principal,
            "host_filter": self.host,
            "operation": int(self.operation),
            "permission_type": int(self.permission),
        }


class Acls:
    """Access control entries of a cluster."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def add(self, entries: Sequence[Acl]) -> None:
        """Writes entries; those that exist are left as they are."""
        rows = [
            {
                "resource_type": int(ResourceKind[each.resource_type]),
                "resource_name": each.resource_name,
                "resource_pattern_type": int(Pattern[each.pattern_type]),
                "principal": each.principal,
                "host": each.host,
                "operation": int(AclOperation[each.operation]),
                "permission_type": int(AclPermission[each.permission]),
            }
            for each in entries
        ]
        answer = self._brokers.any(request(ApiKey.CREATE_ACLS, creations=rows))
        for result in answer.results:
            what = "add an access control entry"
            check(error_of(result.error_code), result.error_message, what)

    def remove(self, wanted: AclQuery) -> list[Acl]:
        """Removes the entries that are meant; returns them."""
        answer = self._brokers.any(request(ApiKey.DELETE_ACLS, filters=[wanted.fields()]))
        (result,) = answer.filter_results
        what = "remove access control entries"
        check(error_of(result.error_code), result.error_message, what)
        return [_acl(row, row) for row in result.matching_acls]

    def list(self, wanted: AclQuery) -> list[Acl]:
        """The entries that are meant."""
        answer = self._brokers.any(request(ApiKey.DESCRIBE_ACLS, **wanted.fields()))
        what = "list access control entries"
        check(error_of(answer.error_code), answer.error_message, what)
        return [_acl(resource, row) for resource in answer.resources for row in resource.acls]


def _acl(resource: Entity, row: Entity) -> Acl:
    return Acl(
        ResourceKind(resource.resource_type).name,
        resource.resource_name,
        Pattern(resource.pattern_type).name,
        row.principal,
        row.host,
        AclOperation(row.operation).name,
        AclPermission(row.permission_type).name,
    )

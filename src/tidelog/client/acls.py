"""What an administrator asks about access control entries.

Names are those that Kafka's `kafka-acls` prints: `TOPIC`, `READ`, `ALLOW`, `LITERAL`. Errors that
stay are `AdminError`.

Source: KIP-140, KIP-290.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.client.blocking import Brokers
from tidelog.client.core.calls import request
from tidelog.client.core.errors import check
from tidelog.wire.acl_values import Operation, PatternType, Permission, ResourceType
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.values import error_of


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

    resource: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

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
                "resource_type": int(ResourceType[each.resource_type]),
                "resource_name": each.resource_name,
                "resource_pattern_type": int(PatternType[each.pattern_type]),
                "principal": each.principal,
                "host": each.host,
                "operation": int(Operation[each.operation]),
                "permission_type": int(Permission[each.permission]),
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
        ResourceType(resource.resource_type).name,
        resource.resource_name,
        PatternType(resource.pattern_type).name,
        row.principal,
        row.host,
        Operation(row.operation).name,
        Permission(row.permission_type).name,
    )

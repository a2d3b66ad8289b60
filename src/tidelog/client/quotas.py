"""What an administrator asks about quotas of clients.

Types and names are Kafka's: quotas `producer_byte_rate`, `consumer_byte_rate`,
`request_percentage` and `controller_mutation_rate` of the types `user` and `client-id`, or of a
pair of both, and `connection_creation_rate` of the type `ip`. Errors that stay are `AdminError`.

Source: KIP-546.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.client.blocking import Brokers
from tidelog.client.core.calls import request
from tidelog.client.core.errors import check
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

_EXACT: Final = 0
_DEFAULT: Final = 1

Entity = Mapping[str, str | None]
"""Names by type; no name is the default of the type."""


@dataclass(frozen=True, slots=True)
class Quota:
    """One value for one entity."""

    entity: Entity
    name: str
    value: float


class Quotas:
    """Quotas of a cluster."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def list(self, wanted: Entity) -> list[Quota]:
        """The quotas of entities with these types and names; of all without any."""
        parts = [
            {"entity_type": kind, "match_type": _DEFAULT if name is None else _EXACT, "match": name}
            for kind, name in wanted.items()
        ]
        asked = request(ApiKey.DESCRIBE_CLIENT_QUOTAS, components=parts, strict=False)
        answer = self._brokers.any(asked)
        check(error_of(answer.error_code), answer.error_message, "list quotas")
        return [
            Quota({part.entity_type: part.entity_name for part in row.entity}, each.key, each.value)
            for row in answer.entries
            for each in row.values
        ]

    def alter(self, entity: Entity, values: Mapping[str, float | None]) -> None:
        """Sets the quotas of one entity, all or none; a value that is `None` is removed."""
        row = {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
            "ops": [
                {"key": name, "value": float(value or 0), "remove": value is None}
                for name, value in values.items()
            ],
        }
        asked = request(ApiKey.ALTER_CLIENT_QUOTAS, entries=[row], validate_only=False)
        for result in self._brokers.any(asked).entries:
            check(error_of(result.error_code), result.error_message, "change quotas")

"""Goal: quotas go out and come back under Kafka's names, and a refusal is an error."""

from typing import Any

import pytest

from tests.unit.client.scripted_brokers import ScriptedBrokers
from tidelog.client.admin import AdminClient, AdminError
from tidelog.client.quotas import Quota
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey


class Kept:
    """One broker with quotas, which a filter finds by the names of their entities."""

    def __init__(self) -> None:
        self.values: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = {}
        self.code = ErrorCode.NONE
        self.brokers = ScriptedBrokers(
            {
                ApiKey.DESCRIBE_CLIENT_QUOTAS: lambda asked: self._described(asked),
                ApiKey.ALTER_CLIENT_QUOTAS: lambda asked: self._altered(asked),
            }
        )

    def _described(self, asked: Any) -> dict[str, Any]:
        wanted = {(part.entity_type, part.match) for part in asked.components}
        rows = [
            {
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
                "values": [{"key": key, "value": value} for key, value in values.items()],
            }
            for entity, values in self.values.items()
            if wanted <= set(entity)
        ]
        return {"error_code": self.code, "error_message": "no", "entries": rows}

    def _altered(self, asked: Any) -> dict[str, Any]:
        (entry,) = asked.entries
        entity = tuple((part.entity_type, part.entity_name) for part in entry.entity)
        values = self.values.setdefault(entity, {})
        for each in entry.ops:
            values.pop(each.key, None)
            if not each.remove:
                values[each.key] = each.value
        row = {"error_code": self.code, "error_message": "no", "entity": ()}
        return {"entries": [row]}


@pytest.fixture
def kept():
    found = Kept()
    with found.brokers:
        yield found


def test_quotas_go_out_and_come_back(kept):
    with AdminClient([kept.brokers.bootstrap_servers]) as admin:
        admin.quotas.alter({"user": None}, {"request_percentage": 2.5})
        admin.quotas.alter({"user": "ada"}, {"producer_byte_rate": 7, "consumer_byte_rate": 8})
        admin.quotas.alter({"user": "ada"}, {"producer_byte_rate": None})
        ada = Quota({"user": "ada"}, "consumer_byte_rate", 8)
        assert admin.quotas.list({"user": "ada"}) == [ada]
        assert admin.quotas.list({}) == [Quota({"user": None}, "request_percentage", 2.5), ada]


def test_a_refusal_is_an_error(kept):
    kept.code = ErrorCode.INVALID_REQUEST
    with AdminClient([kept.brokers.bootstrap_servers]) as admin:
        for ask in (
            lambda: admin.quotas.list({}),
            lambda: admin.quotas.alter({"user": "ada"}, {"producer_byte_rate": -1}),
        ):
            with pytest.raises(AdminError, match="INVALID_REQUEST"):
                ask()

"""Goal: entries go out and come back in Kafka's words, and a refusal is an error."""

import pytest

from tests.unit.client.scripted_brokers import ScriptedBrokers
from tidelog.client.acls import Acl, AclQuery
from tidelog.client.admin import AdminClient, AdminError
from tidelog.errors import ErrorCode
from tidelog.wire.acl_values import Operation, PatternType, ResourceType
from tidelog.wire.api import ApiKey

ENTRY = Acl("TOPIC", "orders", "PREFIXED", "User:ada", "*", "READ", "DENY")


class Entries:
    """One broker with entries, which a filter finds by the name of their resource."""

    def __init__(self) -> None:
        self.kept: list[dict] = []
        self.code = ErrorCode.NONE
        self.brokers = ScriptedBrokers(
            {
                ApiKey.DESCRIBE_ACLS: lambda asked: self._described(asked),
                ApiKey.CREATE_ACLS: lambda asked: self._created(asked),
                ApiKey.DELETE_ACLS: lambda asked: self._deleted(asked),
            }
        )

    def _found(self, name: str | None) -> list[dict]:
        return [each for each in self.kept if name in (None, each["resource_name"])]

    def _described(self, asked) -> dict:
        rows = [
            {name: each[name] for name in ("resource_type", "resource_name", "pattern_type")}
            | {"acls": [each]}
            for each in self._found(asked.resource_name_filter)
        ]
        return {"error_code": self.code, "resources": rows}

    def _created(self, asked) -> dict:
        names = ("resource_type", "resource_name", "principal", "host", "operation")
        for each in asked.creations:
            row = {name: getattr(each, name) for name in (*names, "permission_type")}
            self.kept.append({**row, "pattern_type": each.resource_pattern_type})
        return {"results": [{"error_code": self.code} for _ in asked.creations]}

    def _deleted(self, asked) -> dict:
        (wanted,) = asked.filters
        gone = self._found(wanted.resource_name_filter)
        self.kept = [each for each in self.kept if each not in gone]
        done = {"error_code": ErrorCode.NONE, "error_message": None}
        rows = [{**each, **done} for each in gone]
        return {"filter_results": [{"error_code": self.code, "matching_acls": rows}]}


@pytest.fixture
def entries():
    found = Entries()
    with found.brokers:
        yield found


def test_entries_go_out_and_come_back(entries):
    with AdminClient([entries.brokers.bootstrap_servers]) as admin:
        admin.acls.add([ENTRY])
        assert entries.kept[0]["pattern_type"] == PatternType.PREFIXED
        assert admin.acls.list(AclQuery()) == [ENTRY]
        assert admin.acls.list(AclQuery(ResourceType.TOPIC, "other")) == []
        assert admin.acls.remove(AclQuery(name="orders", operation=Operation.READ)) == [ENTRY]
        assert admin.acls.list(AclQuery()) == []


def test_a_refusal_is_an_error(entries):
    entries.code = ErrorCode.SECURITY_DISABLED
    with AdminClient([entries.brokers.bootstrap_servers]) as admin:
        for ask in (
            lambda: admin.acls.list(AclQuery()),
            lambda: admin.acls.add([ENTRY]),
            lambda: admin.acls.remove(AclQuery()),
        ):
            with pytest.raises(AdminError, match="SECURITY_DISABLED"):
                ask()

"""Goal: users of SCRAM go out salted and come back, and a refusal is an error."""

from typing import Any

import pytest

from tests.unit.client.scripted_brokers import ScriptedBrokers
from tidelog.client.admin import AdminClient, AdminError
from tidelog.client.users import Credential
from tidelog.errors import ErrorCode
from tidelog.metadata.scram_keys import salt_password
from tidelog.model import Mechanism, Secret
from tidelog.wire.api import ApiKey

WEAK, STRONG = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512


class Kept:
    """One broker with users."""

    def __init__(self) -> None:
        # By name and mechanism what was sent.
        self.rows: dict[tuple[str, int], Any] = {}
        self.code = ErrorCode.NONE
        self.brokers = ScriptedBrokers(
            {
                ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda asked: self._described(asked),
                ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda asked: self._altered(asked),
            }
        )

    def _described(self, asked: Any) -> dict[str, Any]:
        names = [each.name for each in asked.users] or sorted({name for name, _ in self.rows})
        results = []
        for name in names:
            infos = [
                {"mechanism": mechanism, "iterations": row.iterations}
                for (user, mechanism), row in self.rows.items()
                if user == name
            ]
            code = ErrorCode.NONE if infos else ErrorCode.RESOURCE_NOT_FOUND
            said = {"error_code": code, "error_message": "no such user"}
            results.append({"user": name, "credential_infos": infos, **said})
        return {"error_code": self.code, "error_message": "no", "results": results}

    def _altered(self, asked: Any) -> dict[str, Any]:
        results = []
        for row in (*asked.deletions, *asked.upsertions):
            key = (row.name, int(row.mechanism))
            self.rows.pop(key, None)
            if row in asked.upsertions:
                self.rows[key] = row
            results.append({"user": row.name, "error_code": self.code, "error_message": "no"})
        return {"results": results}


@pytest.fixture
def kept():
    found = Kept()
    with found.brokers:
        yield found


def test_users_go_out_salted_and_come_back(kept):
    with AdminClient([kept.brokers.bootstrap_servers]) as admin:
        made = admin.users.add("bob", STRONG, Secret("bob-s3cret"), 5000)
        assert made == Credential("bob", "SCRAM-SHA-512", 5000)
        for name in ("ada", "bob"):
            admin.users.add(name, WEAK, Secret("s3cret"))
        weak = [Credential(name, "SCRAM-SHA-256", 4096) for name in ("ada", "bob")]
        assert admin.users.list() == [*weak, made]
        assert admin.users.list(["bob", "bob"]) == [weak[1], made]
        admin.users.remove("bob", WEAK)
        assert admin.users.list(["bob"]) == [made]
    sent = kept.rows["bob", 2]
    assert sent.salted_password == salt_password(STRONG, "bob-s3cret", sent.salt, 5000)
    assert len({row.salt for row in kept.rows.values()}) == 2
    assert b"s3cret" not in repr(kept.brokers.requests).encode()


def test_a_mechanism_of_a_newer_version_is_listed_by_its_number(kept):
    with AdminClient([kept.brokers.bootstrap_servers]) as admin:
        admin.users.add("ada", WEAK, Secret("s3cret"))
        kept.rows["ada", 3] = kept.rows.pop(("ada", 1))
        assert [each.mechanism for each in admin.users.list()] == ["3"]


def test_a_refusal_is_an_error(kept):
    with AdminClient([kept.brokers.bootstrap_servers]) as admin:
        with pytest.raises(AdminError, match="RESOURCE_NOT_FOUND"):
            admin.users.list(["ada"])
        kept.code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        for ask in (
            lambda: admin.users.list(),
            lambda: admin.users.add("ada", WEAK, Secret("s3cret")),
            lambda: admin.users.remove("ada", WEAK),
        ):
            with pytest.raises(AdminError, match="CLUSTER_AUTHORIZATION_FAILED"):
                ask()

"""CreateDelegationToken: the newest version and those before it, which know no other owners."""

import pytest

from tests.unit.broker.token_holders import create, principal, token_node, user
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, to_timestamp_ms

DAY_MS, WEEK_MS = 86_400_000, 604_800_000


def test_an_answer_has_all_that_a_job_needs():
    node = token_node()
    made = create(user(node, "alice"), renewers=(principal("bob"),))
    assert (made.principal_type, made.principal_name) == ("User", "alice")
    issued = to_timestamp_ms(made.issue_timestamp)
    assert abs(issued - node.broker.wall_ms(node.now)) < 1000
    assert to_timestamp_ms(made.expiry_timestamp) == issued + DAY_MS
    assert to_timestamp_ms(made.max_timestamp) == issued + WEEK_MS
    assert len(made.hmac) == 64
    record = node.broker.image.token(made.token_id)
    assert record.renewers == ("User:bob",)


@pytest.mark.parametrize("version", [1, 2])
def test_older_versions_make_tokens_of_who_asks(version: int):
    wire = user(token_node(), "alice")
    values = {"renewers": (), "max_lifetime": 5000}
    made = wire.call(ApiKey.CREATE_DELEGATION_TOKEN, version, **values)
    assert error_of(made.error_code) is ErrorCode.NONE
    assert made.principal_name == "alice"

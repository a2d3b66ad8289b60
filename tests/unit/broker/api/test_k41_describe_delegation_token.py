"""DescribeDelegationToken: what a user may see, and no more."""

import pytest

from tests.unit.broker.one_node import OneNode
from tests.unit.broker.secured_node import DESCRIBE, add, entry
from tests.unit.broker.token_holders import create, describe, principal, token_node, user
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey

DESCRIBE_TOKENS, TOKEN, USER = 14, 6, 7


@pytest.fixture
def node() -> OneNode:
    return token_node()


def ids(answer) -> set[str]:
    return {token.token_id for token in answer.tokens}


def test_owners_and_renewers_see_a_token_with_its_code(node: OneNode):
    made = create(user(node, "alice"), renewers=(principal("bob"),))
    found = describe(user(node, "alice"), of_all=True).tokens[0]
    assert (found.token_id, found.hmac) == (made.token_id, made.hmac)
    assert [each.principal_name for each in found.renewers] == ["bob"]
    assert found.token_requester_principal_name == "alice"
    assert found.expiry_timestamp < found.max_timestamp
    assert ids(describe(user(node, "alice"), "bob")) == {made.token_id}


def test_a_list_without_owners_asks_for_nothing(node: OneNode):
    create(user(node, "alice"))
    assert ids(describe(user(node, "alice"))) == set()
    assert ids(describe(user(node, "alice"), "bob")) == set()


@pytest.mark.parametrize(
    ("operation", "resource_type", "name"),
    [(DESCRIBE, TOKEN, "{id}"), (DESCRIBE_TOKENS, USER, "User:node")],
)
def test_others_need_a_right(node: OneNode, operation: int, resource_type: int, name: str):
    made = create(user(node, "node"))
    assert ids(describe(user(node, "alice"), of_all=True)) == set()
    values = {"resource_type": resource_type, "principal": "User:alice"}
    right = entry(operation, name.format(id=made.token_id), **values)
    assert add(node, right, wire=user(node, "node")) == [ErrorCode.NONE]
    assert ids(describe(user(node, "alice"), of_all=True)) == {made.token_id}


@pytest.mark.parametrize("version", [1, 2])
def test_older_versions_know_no_requester(node: OneNode, version: int):
    create(user(node, "alice"))
    answer = user(node, "alice").call(ApiKey.DESCRIBE_DELEGATION_TOKEN, version, owners=None)
    assert answer.tokens[0].principal_name == "alice"
    assert not hasattr(answer.tokens[0], "token_requester_principal_name")

"""DescribeUserScramCredentials: all users or some, and never a key."""

import pytest

from tests.unit.broker.logged_in import add_user
from tests.unit.broker.one_node import OneNode
from tidelog.errors import ErrorCode
from tidelog.model import Mechanism
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

KEY = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS


@pytest.fixture(scope="module")
def node() -> OneNode:
    node = OneNode()
    add_user(node, "bob", "p", Mechanism.SCRAM_SHA_512)
    add_user(node, "bob", "p", Mechanism.SCRAM_SHA_256)
    add_user(node, "ann", "p", Mechanism.SCRAM_SHA_256)
    return node


def described(node: OneNode, *names: str, all_of_them: bool = False):
    """(name, code, (mechanism, iterations) of each credential) of each row."""
    users = None if all_of_them else tuple({"name": name} for name in names)
    answer = node.client().call(KEY, 0, users=users)
    return [
        (
            row.user,
            error_of(row.error_code),
            [(each.mechanism, each.iterations) for each in row.credential_infos],
        )
        for row in answer.results
    ]


@pytest.mark.parametrize("all_of_them", [True, False])
def test_no_names_ask_for_all_users(node: OneNode, all_of_them: bool):
    assert described(node, all_of_them=all_of_them) == [
        ("ann", ErrorCode.NONE, [(1, 4096)]),
        ("bob", ErrorCode.NONE, [(1, 4096), (2, 4096)]),
    ]


def test_each_name_has_its_own_answer(node: OneNode):
    assert described(node, "bob", "mallory", "ann", "ann") == [
        ("bob", ErrorCode.NONE, [(1, 4096), (2, 4096)]),
        ("mallory", ErrorCode.RESOURCE_NOT_FOUND, []),
        ("ann", ErrorCode.DUPLICATE_RESOURCE, []),
    ]

"""RenewDelegationToken and ExpireDelegationToken: later, or over; and what is refused."""

import pytest

from tests.unit.broker.one_node import OneNode
from tests.unit.broker.token_holders import create, expire, principal, renew, token_node, user
from tidelog.errors import ErrorCode
from tidelog.wire.values import error_of, to_timestamp_ms


@pytest.fixture(scope="module")
def node() -> OneNode:
    return token_node()


def test_a_renewer_puts_the_end_off(node: OneNode):
    made = create(user(node, "alice"), renewers=(principal("node"),))
    now = node.broker.wall_ms(node.now)
    renewed = renew(user(node, "node"), made.hmac, 5000)
    assert error_of(renewed.error_code) is ErrorCode.NONE
    assert 0 <= to_timestamp_ms(renewed.expiry_timestamp) - now - 5000 < 1000
    ended = expire(user(node, "alice"), made.hmac, 70)
    assert 0 <= to_timestamp_ms(ended.expiry_timestamp) - now - 70 < 2000


@pytest.mark.parametrize("ask", [renew, expire])
def test_others_may_not(node: OneNode, ask):
    made = create(user(node, "alice"))
    refused = ask(user(node, "node"), made.hmac)
    assert error_of(refused.error_code) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert to_timestamp_ms(refused.expiry_timestamp) == 0
    unknown = ask(user(node, "alice"), b"another code")
    assert error_of(unknown.error_code) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND

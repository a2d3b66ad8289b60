"""Who may ask about delegation tokens: a user who has logged in, and not with a token."""

from typing import Any

import pytest

from tests.unit.broker.logged_in import metadata
from tests.unit.broker.one_node import CONTROLLER, OneNode
from tests.unit.broker.secured_node import add, entry
from tests.unit.broker.token_holders import (
    create,
    describe,
    expire,
    holder,
    principal,
    renew,
    token_node,
    user,
)
from tidelog.broker.api.k58_envelope import outcome_of, request_of
from tidelog.errors import ErrorCode
from tidelog.model import Principal
from tidelog.security.client_login import LoginRefused
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.values import error_of, millis, to_timestamp_ms

CREATE_TOKENS, USER = 13, 7


def codes_of_all(wire) -> set[ErrorCode]:
    answers = create(wire), renew(wire, b"code"), expire(wire, b"code"), describe(wire)
    return {error_of(answer.error_code) for answer in answers}


@pytest.fixture(scope="module")
def node() -> OneNode:
    return token_node()


def test_a_token_logs_its_owner_in(node: OneNode):
    made = create(user(node, "alice"))
    assert error_of(made.error_code) is ErrorCode.NONE
    wire = holder(node, made)
    connection = node.broker.connections.get(wire.connection_id)
    assert connection.principal == Principal("User", "alice")
    assert metadata(wire) is not None


def test_a_session_of_a_token_learns_nothing_of_tokens(node: OneNode):
    wire = holder(node, create(user(node, "alice")))
    assert codes_of_all(wire) == {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}


def test_nothing_is_said_on_a_listener_without_logins():
    wire = OneNode(delegation_token_secret_key="key").client()
    assert codes_of_all(wire) == {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}
    refused = create(wire)
    assert (refused.principal_name, refused.token_requester_principal_name) == ("ANONYMOUS",) * 2
    assert (refused.token_id, refused.hmac) == ("", b"")
    assert to_timestamp_ms(refused.expiry_timestamp) == -1


def forwarded(
    node: OneNode, *, is_delegated: bool = False, renewers: tuple[dict[str, str], ...] = ()
) -> Any:
    """The controller's answer to alice's request for a token that a broker sends to it."""
    values = {
        "owner_principal_type": None,
        "owner_principal_name": None,
        "max_lifetime": millis(-1),
    }
    asked = codec.request_class(ApiKey.CREATE_DELEGATION_TOKEN, 3)
    frame = codec.encode_request(make(asked, renewers=renewers, **values), 5, "inner")[4:]
    alice = Principal("User", "alice")
    envelope = request_of(frame, alice, "10.0.0.1", is_delegated=is_delegated)
    answer = outcome_of(node.client(CONTROLLER).ask(ApiKey.ENVELOPE, envelope) or b"")
    assert isinstance(answer, bytes)
    _, made = codec.decode_response(ApiKey.CREATE_DELEGATION_TOKEN, 3, answer)
    return made


def test_a_forwarded_request_is_judged_by_its_user_and_not_by_the_way_of_the_envelope(
    node: OneNode,
):
    """As with Kafka: the broker has looked at the client's connection. Between nodes there may be
    no logins."""
    assert error_of(forwarded(node).error_code) is ErrorCode.NONE
    refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert error_of(forwarded(node, is_delegated=True).error_code) is refused


def test_without_a_common_key_there_are_no_tokens():
    wire = user(token_node(delegation_token_secret_key=""), "alice")
    assert codes_of_all(wire) == {ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED}


def test_a_token_of_another_user_needs_the_right(node: OneNode):
    denied = create(user(node, "alice"), owner="bob")
    assert error_of(denied.error_code) is ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (denied.principal_name, denied.token_requester_principal_name) == ("bob", "alice")
    right = entry(CREATE_TOKENS, "User:bob", resource_type=USER, principal="User:alice")
    assert add(node, right, wire=user(node, "node")) == [ErrorCode.NONE]
    granted = create(user(node, "alice"), owner="bob")
    assert error_of(granted.error_code) is ErrorCode.NONE
    assert (granted.principal_name, granted.token_requester_principal_name) == ("bob", "alice")


def test_renewers_are_users(node: OneNode):
    """Kafka's controllers leave the times of the refusal at 0, and its brokers say -1."""
    team = (principal("team", "Group"),)
    answers = create(user(node, "alice"), renewers=team), forwarded(node, renewers=team)
    for wrong, at in zip(answers, (-1, 0), strict=True):
        assert error_of(wrong.error_code) is ErrorCode.INVALID_PRINCIPAL_TYPE
        assert to_timestamp_ms(wrong.expiry_timestamp) == at


def test_a_session_ends_with_its_token(node: OneNode):
    made = create(user(node, "alice"), max_lifetime=2000)
    wire = holder(node, made)
    assert metadata(wire) is not None
    node.advance(2001)
    assert metadata(wire) is None
    with pytest.raises(LoginRefused):
        holder(node, made)


def test_a_token_that_was_ended_begins_no_session(node: OneNode):
    alice = user(node, "alice")
    made = create(alice)
    assert error_of(expire(alice, made.hmac).error_code) is ErrorCode.NONE
    with pytest.raises(LoginRefused):
        holder(node, made)


def test_the_controller_removes_what_has_expired():
    node = token_node(delegation_token_expiry_check_interval_ms="1000")
    made = create(user(node, "alice"), max_lifetime=1500)
    assert node.broker.image.token(made.token_id) is not None
    node.advance(3000)
    assert node.broker.image.token(made.token_id) is None

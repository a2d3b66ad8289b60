"""Logins on a listener that asks for them: each phase, failures, deadlines, sessions."""

import json

import pytest

from tests.unit.broker.logged_in import (
    ISSUER,
    KEYS_URL,
    add_user,
    client_login,
    log_in,
    login_node,
    token_of,
)
from tests.unit.broker.logged_in import metadata as ask_metadata
from tests.unit.broker.one_node import OneNode, Wire
from tidelog.broker.events import LoginFailed
from tidelog.env.effects import KeysFetched, TokenFetched
from tidelog.errors import ErrorCode, UsageError
from tidelog.limits import (
    LOGIN_DEADLINE_MS,
    MAX_LOGIN_FRAME_BYTES,
    MAX_UNAUTHENTICATED_CONNECTIONS,
    MAX_UNAUTHENTICATED_PER_HOST,
)
from tidelog.metadata.scram_keys import SCRAM_NUMBERS
from tidelog.model import Mechanism, Principal, Secret
from tidelog.security.client_login import LoginRefused
from tidelog.security.sasl import AuthenticationFailed
from tidelog.security.tokens import INVALID_TOKEN
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.values import error_of, to_millis

PLAIN, SCRAM, BEARER = Mechanism.PLAIN, Mechanism.SCRAM_SHA_512, Mechanism.OAUTHBEARER


@pytest.fixture
def node() -> OneNode:
    return login_node()


def failures(node: OneNode) -> list[str]:
    """Why logins have failed, in order."""
    return [event.reason for event in node.trace.events if isinstance(event, LoginFailed)]


def principal(wire: Wire) -> Principal:
    connection = wire.node.broker.connections.get(wire.connection_id)
    assert connection is not None
    return connection.principal


def handshake(wire: Wire, mechanism: str, version: int = 1) -> ErrorCode:
    answer = wire.call(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)
    code = error_of(answer.error_code)
    is_in_time = code is not ErrorCode.ILLEGAL_SASL_STATE
    assert answer.mechanisms == (tuple(map(str, Mechanism)) if is_in_time else ())
    return code


def authenticate(wire: Wire, token: bytes, version: int = 2) -> tuple[ErrorCode, str, bytes]:
    answer = wire.call(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=token)
    return error_of(answer.error_code), answer.error_message, answer.auth_bytes


def greet(wire: Wire) -> ErrorCode:
    name = {"client_software_name": "test", "client_software_version": "1"}
    return error_of(wire.call(ApiKey.API_VERSIONS, 4, **name).error_code)


# Good logins -------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", Mechanism)
def test_a_client_that_logs_in_is_served_under_its_name(node: OneNode, mechanism: Mechanism):
    password = "wonder-s3cret"
    if mechanism is BEARER:
        password = token_of(node, "alice")
    elif mechanism is not PLAIN:
        add_user(node, "alice", password, mechanism)
    wire = node.client()
    log_in(wire, mechanism, "alice", password)
    assert ask_metadata(wire) is not None
    assert principal(wire) == Principal("User", "alice")
    assert node.broker.logins.succeeded["PLAINTEXT"] == 1


def test_versions_may_be_asked_for_before(node: OneNode):
    wire = node.client()
    assert greet(wire) is ErrorCode.NONE
    log_in(wire, PLAIN, "alice", "wonder-s3cret")
    assert greet(wire) is ErrorCode.NONE


def test_old_clients_send_their_messages_without_headers(node: OneNode):
    wire = node.client()
    assert handshake(wire, "PLAIN", version=0) is ErrorCode.NONE
    wire.send(b"\0\0\0\x14\0alice\0wonder-s3cret")
    assert bytes(node.sent[wire.connection_id]) == bytes(4)
    node.sent[wire.connection_id].clear()
    assert principal(wire) == Principal("User", "alice")
    assert ask_metadata(wire) is not None


def test_a_changed_password_counts_for_the_next_login(node: OneNode):
    add_user(node, "bob", "first-s3cret", SCRAM)
    open_before = node.client()
    log_in(open_before, SCRAM, "bob", "first-s3cret")
    add_user(node, "bob", "second-s3cret", SCRAM)
    with pytest.raises(LoginRefused):
        log_in(node.client(), SCRAM, "bob", "first-s3cret")
    log_in(node.client(), SCRAM, "bob", "second-s3cret")
    assert ask_metadata(open_before) is not None


def test_after_the_login_the_two_apis_answer_that_it_is_not_their_time(node: OneNode):
    wire = node.client()
    log_in(wire, PLAIN, "alice", "wonder-s3cret")
    assert handshake(wire, "PLAIN") is ErrorCode.ILLEGAL_SASL_STATE
    assert authenticate(wire, b"")[0] is ErrorCode.ILLEGAL_SASL_STATE
    assert ask_metadata(wire) is not None


def test_where_no_login_is_asked_for_the_two_apis_say_so():
    wire = OneNode().client()
    answer = wire.call(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    assert error_of(answer.error_code) is ErrorCode.ILLEGAL_SASL_STATE
    assert authenticate(wire, b"")[0] is ErrorCode.ILLEGAL_SASL_STATE


# Bad logins --------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [b"\0\x03\0\x0c\0\0\0\x01\xff\xff", b"\x60\x82\x01\x00", b"x"])
def test_anything_else_before_a_login_closes_at_once(node: OneNode, frame: bytes):
    wire = node.client()
    wire.send(len(frame).to_bytes(4, "big") + frame)
    node.settle()
    assert wire.frames() == []
    assert wire.closed
    assert len(failures(node)) == 1


@pytest.mark.parametrize(
    ("key", "version"),
    [(ApiKey.SASL_AUTHENTICATE, 1), (ApiKey.METADATA, 12), (ApiKey.SASL_HANDSHAKE, 2)],
)
def test_an_api_out_of_its_place_closes_at_once(node: OneNode, key: ApiKey, version: int):
    wire = node.client()
    wire.send(b"\0\0\0\x0a" + int(key).to_bytes(2, "big") + bytes((0, version)) + bytes(6))
    node.settle()
    assert (wire.frames(), wire.closed) == ([], True)


def test_a_second_question_for_versions_closes(node: OneNode):
    wire = node.client()
    assert greet(wire) is ErrorCode.NONE
    request = make(
        codec.request_class(ApiKey.API_VERSIONS, 4),
        client_software_name="test",
        client_software_version="1",
    )
    assert wire.ask(ApiKey.API_VERSIONS, request) is None


def test_a_refused_question_for_versions_may_be_repeated(node: OneNode):
    wire = node.client()
    name = {"client_software_name": "", "client_software_version": "1"}
    refused = wire.call(ApiKey.API_VERSIONS, 4, **name)
    assert error_of(refused.error_code) is ErrorCode.INVALID_REQUEST
    assert greet(wire) is ErrorCode.NONE


def test_an_unknown_mechanism_is_answered_late_with_those_there_are(node: OneNode):
    wire = node.client()
    began = node.now
    assert handshake(wire, "scram-sha-256") is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert node.now - began >= 100
    assert wire.closed
    assert failures(node) == ["the mechanism `scram-sha-256` is not enabled"]


@pytest.mark.parametrize(
    ("mechanism", "name", "reason"),
    [
        (PLAIN, "alice", "Invalid username or password"),
        (SCRAM, "bob", "a wrong password"),
        (SCRAM, "mallory", "a user that does not exist"),
    ],
)
def test_a_failed_login_is_answered_late_and_closed(
    node: OneNode, mechanism: Mechanism, name: str, reason: str
):
    add_user(node, "bob", "right-s3cret", SCRAM)
    wire = node.client()
    began = node.now
    with pytest.raises(LoginRefused, match="SASL_AUTHENTICATION_FAILED"):
        log_in(wire, mechanism, name, "wrong-s3cret")
    assert node.now - began >= 100
    node.settle()
    assert wire.closed
    assert failures(node) == [reason]
    assert node.broker.logins.failed["PLAINTEXT"] == 1


def test_scram_failures_all_read_the_same(node: OneNode):
    wire = node.client()
    assert handshake(wire, "SCRAM-SHA-512") is ErrorCode.NONE
    code, message, _ = authenticate(wire, b"n,,n=\xc3\xa9,r=abc")
    assert (code, message) == (
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        "Authentication failed during authentication due to invalid credentials with SASL "
        "mechanism SCRAM-SHA-512",
    )


@pytest.mark.parametrize("key", [ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS])
def test_another_api_in_the_middle_of_a_login_is_an_error_and_the_end(node: OneNode, key: ApiKey):
    wire = node.client()
    assert handshake(wire, "PLAIN") is ErrorCode.NONE
    code = handshake(wire, "PLAIN") if key is ApiKey.SASL_HANDSHAKE else greet(wire)
    assert code is ErrorCode.ILLEGAL_SASL_STATE
    assert wire.closed


def test_an_ordinary_request_in_the_middle_of_a_login_is_the_end(node: OneNode):
    wire = node.client()
    assert handshake(wire, "PLAIN") is ErrorCode.NONE
    assert ask_metadata(wire) is None
    assert wire.closed


def test_an_old_client_that_fails_is_closed_without_an_answer(node: OneNode):
    wire = node.client()
    assert handshake(wire, "PLAIN", version=0) is ErrorCode.NONE
    wire.send(b"\0\0\0\x05\0a\0bc")
    node.settle()
    assert not wire.closed
    node.advance(100)
    assert (wire.frames(), wire.closed) == ([], True)


def test_what_comes_behind_a_failure_is_not_looked_at(node: OneNode):
    wire = node.client()
    handshake(wire, "PLAIN")
    bad = make(codec.request_class(ApiKey.SASL_AUTHENTICATE, 2), auth_bytes=b"\0alice\0wrong")
    good = make(
        codec.request_class(ApiKey.SASL_AUTHENTICATE, 2), auth_bytes=b"\0alice\0wonder-s3cret"
    )
    wire.send(codec.encode_request(bad, 2, "x") + codec.encode_request(good, 3, "x"))
    node.advance(200)
    assert len(wire.frames()) == 1
    assert wire.closed


# Bounds ------------------------------------------------------------------------------------


def test_a_frame_that_is_too_long_for_a_stranger_closes(node: OneNode):
    wire = node.client()
    wire.send((MAX_LOGIN_FRAME_BYTES + 1).to_bytes(4, "big"))
    node.settle()
    assert wire.closed
    ready = node.client()
    log_in(ready, PLAIN, "alice", "wonder-s3cret")
    ready.send((MAX_LOGIN_FRAME_BYTES + 1).to_bytes(4, "big"))
    node.settle()
    assert not ready.closed


@pytest.mark.parametrize("begins", [False, True])
def test_a_stranger_has_ten_seconds(node: OneNode, begins: bool):
    wire = node.client()
    if begins:
        handshake(wire, "PLAIN")
    node.advance(LOGIN_DEADLINE_MS - 100)
    assert not wire.closed
    node.advance(200)
    assert wire.closed
    assert failures(node) == ["no login in time"]


def test_a_watch_that_has_logged_in_stays(node: OneNode):
    wire = node.client()
    log_in(wire, PLAIN, "node", "node-s3cret")
    node.advance(3_600_000)
    assert not wire.closed


def test_strangers_are_bounded_and_the_oldest_goes(node: OneNode):
    wires = [node.client() for _ in range(3)]
    unauthenticated = node.broker.connections.unauthenticated
    assert len(unauthenticated) == 3
    for number in range(MAX_UNAUTHENTICATED_CONNECTIONS - 2):
        node.client(host=f"10.0.0.{number % 8}")
    assert len(unauthenticated) == MAX_UNAUTHENTICATED_CONNECTIONS
    assert [wire.closed for wire in wires] == [True, False, False]


def test_one_address_closes_its_own_connections_and_not_those_of_others(node: OneNode):
    honest, first = node.client(host="10.0.0.1"), node.client(host="10.0.0.2")
    for _ in range(MAX_UNAUTHENTICATED_PER_HOST):
        node.client(host="10.0.0.2")
    assert (honest.closed, first.closed) == (False, True)


# Sessions ----------------------------------------------------------------------------------


def session_node() -> OneNode:
    return login_node(connections_max_reauth_ms="10000")


def test_a_session_has_an_end_and_is_renewed_on_the_open_connection():
    node = session_node()
    wire = node.client()
    assert log_in(wire, PLAIN, "alice", "wonder-s3cret").session_ms == 10_000
    node.advance(9000)
    log_in(wire, PLAIN, "alice", "wonder-s3cret")
    node.advance(9000)
    assert ask_metadata(wire) is not None
    node.advance(2000)
    log_in(wire, PLAIN, "alice", "wonder-s3cret")
    assert ask_metadata(wire) is not None


def test_after_its_end_only_a_login_is_served():
    node = session_node()
    wire = node.client()
    log_in(wire, PLAIN, "alice", "wonder-s3cret")
    node.advance(10_000)
    assert ask_metadata(wire) is None
    assert failures(node) == ["the session has ended"]


def test_a_removed_users_connection_ends_when_it_logs_in_again():
    """Goal: it goes on until then, as with Kafka, and no request is served after it."""
    node = session_node()
    add_user(node, "bob", "bob-s3cret", SCRAM)
    wire = node.client()
    log_in(wire, SCRAM, "bob", "bob-s3cret")
    row = {"name": "bob", "mechanism": SCRAM_NUMBERS[SCRAM]}
    node.client("CONTROLLER").call(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=(row,), upsertions=()
    )
    with pytest.raises(LoginRefused):
        log_in(node.client(), SCRAM, "bob", "bob-s3cret")
    node.advance(5000)
    assert ask_metadata(wire) is not None
    with pytest.raises(LoginRefused):
        log_in(wire, SCRAM, "bob", "bob-s3cret")
    node.settle()
    assert wire.closed


def test_a_session_is_not_renewed_at_once():
    node = session_node()
    wire = node.client()
    log_in(wire, PLAIN, "alice", "wonder-s3cret")
    node.advance(500)
    assert handshake(wire, "PLAIN") is ErrorCode.ILLEGAL_SASL_STATE
    assert ask_metadata(wire) is not None


def test_a_client_becomes_no_other_principal():
    node = session_node()
    wire = node.client()
    log_in(wire, PLAIN, "alice", "wonder-s3cret")
    node.advance(2000)
    with pytest.raises(LoginRefused, match=r"from User\.alice: User\.node"):
        log_in(wire, PLAIN, "node", "node-s3cret")
    node.settle()
    assert wire.closed


def test_a_client_keeps_its_mechanism():
    node = session_node()
    add_user(node, "alice", "wonder-s3cret", SCRAM)
    wire = node.client()
    log_in(wire, PLAIN, "alice", "wonder-s3cret")
    node.advance(2000)
    with pytest.raises(LoginRefused, match="closed"):
        log_in(wire, SCRAM, "alice", "wonder-s3cret")


def test_old_clients_have_sessions_too():
    node = session_node()
    wire = node.client()
    handshake(wire, "PLAIN", version=0)
    wire.send(b"\0\0\0\x14\0alice\0wonder-s3cret")
    node.settle()
    node.sent[wire.connection_id].clear()
    node.advance(10_000)
    assert ask_metadata(wire) is None


def test_the_lifetime_is_in_the_answer():
    node = session_node()
    wire = node.client()
    handshake(wire, "PLAIN")
    token = b"\0alice\0wonder-s3cret"
    answer = wire.call(ApiKey.SASL_AUTHENTICATE, 1, auth_bytes=token)
    assert to_millis(answer.session_lifetime) == 10_000
    assert answer.error_message == ""


# Tokens ------------------------------------------------------------------------------------


def test_a_session_ends_with_its_token(node: OneNode):
    wire = node.client()
    assert log_in(wire, BEARER, "alice", token_of(node, "alice", 8000)).session_ms == 8000
    node.advance(6000)
    log_in(wire, BEARER, "alice", token_of(node, "alice", 8000))
    node.advance(6000)
    assert ask_metadata(wire) is not None
    node.advance(2000)
    assert ask_metadata(wire) is None
    assert failures(node) == ["the session has ended"]


@pytest.mark.parametrize(("reauth_ms", "expected_ms"), [("5000", 5000), ("90000", 60_000)])
def test_the_shorter_of_two_ends_counts(reauth_ms: str, expected_ms: int):
    node = login_node(connections_max_reauth_ms=reauth_ms)
    login = log_in(node.client(), BEARER, "alice", token_of(node, "alice"))
    assert login.session_ms == expected_ms


def test_a_token_that_only_the_clocks_difference_keeps_alive_is_over(node: OneNode):
    with pytest.raises(LoginRefused, match="SASL_AUTHENTICATION_FAILED"):
        log_in(node.client(), BEARER, "alice", token_of(node, "alice", -1000))
    assert failures(node) == ["a token that has expired"]


def test_a_bad_token_is_answered_twice_as_kafka_does(node: OneNode):
    wire = node.client()
    handshake(wire, "OAUTHBEARER")
    first = b"n,,\x01auth=Bearer " + token_of(node, "alice", -60_000).encode() + b"\x01\x01"
    assert authenticate(wire, first) == (ErrorCode.NONE, "", INVALID_TOKEN.encode())
    assert not wire.closed
    code, message, token = authenticate(wire, b"\x01")
    assert (code, message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, INVALID_TOKEN)
    assert token == b""
    node.settle()
    assert wire.closed
    assert failures(node) == ["a token that has expired"]


def test_a_token_of_another_client_changes_no_principal(node: OneNode):
    wire = node.client()
    log_in(wire, BEARER, "alice", token_of(node, "alice"))
    node.advance(2000)
    with pytest.raises(LoginRefused, match=r"from User\.alice: User\.bob"):
        log_in(wire, BEARER, "bob", token_of(node, "bob"))


def test_newer_keys_count_and_an_unknown_one_asks_for_them(node: OneNode):
    rows = json.loads(ISSUER.document())["keys"]
    node.receive(KeysFetched(KEYS_URL, json.dumps({"keys": rows[:1]}).encode()))
    second = token_of(node, "alice", key="second")
    with pytest.raises(LoginRefused):
        log_in(node.client(), BEARER, "alice", second)
    assert node.refreshes == [KEYS_URL]
    node.receive(KeysFetched(KEYS_URL, ISSUER.document()))
    log_in(node.client(), BEARER, "alice", token_of(node, "alice", key="second"))


def test_a_node_shows_its_newest_token():
    node = login_node(
        sasl_mechanism_inter_broker_protocol="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url="file:///token",
    )
    own = node.node._parts.own_logins["PLAINTEXT"]
    with pytest.raises(AuthenticationFailed, match="no token"):
        own.begin().respond(b"")
    node.receive(TokenFetched("PLAINTEXT", Secret(token_of(node, "node"))))
    assert own.begin().respond(b"").startswith(b"n,,\x01auth=Bearer ey")


# Starts, secrets ---------------------------------------------------------------------------


def test_a_node_that_cannot_log_in_refuses_to_start():
    with pytest.raises(UsageError, match="log in at the listener `PLAINTEXT`") as refused:
        login_node(sasl_mechanism_inter_broker_protocol="SCRAM-SHA-256")
    assert "listener.name.plaintext.scram-sha-256.sasl.jaas.config=" in refused.value.hint


def test_no_password_is_in_a_trace_or_an_error(node: OneNode):
    """Goal: what a node says of good and bad logins has no secret in it."""
    add_user(node, "bob", "bob-s3cret", SCRAM)
    log_in(node.client(), SCRAM, "bob", "bob-s3cret")
    for name in ("bob", "alice", "mallory"):
        for mechanism in (PLAIN, SCRAM):
            with pytest.raises(LoginRefused) as refused:
                log_in(node.client(), mechanism, name, "wrong-s3cret")
            assert "s3cret" not in str(refused.value)
    token = token_of(node, "bob")
    log_in(node.client(), BEARER, "bob", token)
    with pytest.raises(LoginRefused):
        log_in(node.client(), BEARER, "bob", token[:-9])
    text = "\n".join(event.text() for event in node.trace.events)
    assert token[:-9] not in text
    assert "s3cret" not in text
    assert "s3cret" not in repr(node.node.config)
    login = client_login(PLAIN, "bob", "bob-s3cret")
    assert "s3cret" not in repr(login)

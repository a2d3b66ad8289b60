"""PLAIN: both sides."""

import pytest

from tidelog.model import Secret
from tidelog.security.plain import PlainClient, PlainServer, PlainUsers
from tidelog.security.sasl import AuthenticationFailed

OPTIONS = {"username": Secret("node"), "user_alice": Secret("wonder"), "user_": Secret("nameless")}


def server() -> PlainServer:
    return PlainServer(PlainUsers(OPTIONS, b"key"))


def test_a_client_logs_in():
    it, client = server(), PlainClient("alice", Secret("wonder"))
    token = client.respond(b"")
    assert token == b"\0alice\0wonder"
    assert client.respond(it.respond(token)) == b""
    assert client.is_complete
    assert it.authenticated == "alice"


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0bob\0wonder", "Authentication failed: Invalid username or password"),
        (b"\0\0wonder", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (
            b"bob\0alice\0wonder",
            "Authentication failed: Client requested an authorization id that is different from "
            "username",
        ),
        (b"bob\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"alice\0wonder", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0won\0der", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0alice\0\xff", ""),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    ],
)
def test_what_is_wrong_is_said_in_kafkas_words(token: bytes, message: str):
    it = server()
    with pytest.raises(AuthenticationFailed) as refused:
        it.respond(token)
    assert refused.value.message == message
    assert it.authenticated is None


def test_the_authorization_id_may_be_the_name():
    it = server()
    it.respond(b"alice\0alice\0wonder")
    assert it.authenticated == "alice"

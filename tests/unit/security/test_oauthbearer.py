"""OAUTHBEARER's messages: what each side says, and what it does not take."""

import pytest

from tidelog.limits import MAX_TOKEN_CHARACTERS
from tidelog.model import NO_SECRET, Secret
from tidelog.security.oauthbearer import OAuthClient, OAuthServer
from tidelog.security.sasl import AuthenticationFailed
from tidelog.security.tokens import INVALID_TOKEN, Granted, TokenRefused


class OneToken:
    """Takes the token `good`, which is alice's."""

    def judge(self, token: str, wall_ms: int) -> Granted:
        if token != "good":
            raise TokenRefused("not good")
        return Granted("alice", wall_ms + 7)


def server() -> OAuthServer:
    return OAuthServer(OneToken(), 1000)


def test_a_good_token_proves_the_name_until_it_ends():
    one, client = server(), OAuthClient(Secret("good"), {"realm": "x y"})
    first = client.respond(b"")
    assert first == b"n,,\x01auth=Bearer good\x01realm=x y\x01\x01"
    answer = one.respond(first)
    assert (answer, one.authenticated, one.ends_at_wall_ms) == (b"", "alice", 1007)
    assert client.respond(answer) == b""
    assert client.is_complete


def test_a_bad_token_is_answered_by_a_status_and_fails_after_the_last_word():
    one, client = server(), OAuthClient(Secret("bad"), {})
    status = one.respond(client.respond(b""))
    assert status == INVALID_TOKEN.encode()
    last = client.respond(status)
    assert last == b"\x01"
    assert not client.is_complete
    with pytest.raises(AuthenticationFailed) as failed:
        one.respond(last)
    assert (failed.value.reason, failed.value.message) == ("not good", INVALID_TOKEN)
    assert one.authenticated is None


def test_after_a_refusal_no_second_token_is_looked_at():
    one = server()
    one.respond(b"n,,\x01auth=Bearer bad\x01\x01")
    with pytest.raises(AuthenticationFailed):
        one.respond(b"n,,\x01auth=Bearer good\x01\x01")
    assert one.authenticated is None


def test_the_authorization_id_must_be_the_tokens_name():
    for header in (b"n,a=alice,", b"n,,"):
        assert server().respond(header + b"\x01auth=bearer  good\x01\x01") == b""
    with pytest.raises(AuthenticationFailed) as failed:
        server().respond(b"n,a=a=2Cb,\x01auth=Bearer good\x01\x01")
    assert "(a,b)" in failed.value.message


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer good\x01",
        b"n,,auth=Bearer good\x01\x01",
        b"y,,\x01auth=Bearer good\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer good\x01\x01",
        b"n,a=,\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Basic good\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer good\x01auth=Bearer good\x01\x01",
        b"n,,\x01realm=x\x01\x01",
        b"n,,\x01auth=Bearer good\x011=2\x01\x01",
        b"n,,\x01auth=Bearer g\xc3\xb6od\x01\x01",
        b"n,,\x01auth=Bearer good\x01\x01\x01",
        b"n,,\x01auth=Bearer " + b"g" * (MAX_TOKEN_CHARACTERS + 1) + b"\x01\x01",
    ],
)
def test_what_is_not_the_mechanisms_message_fails(message: bytes):
    one = server()
    with pytest.raises(AuthenticationFailed):
        one.respond(message)
    assert one.authenticated is None


def test_a_client_without_a_token_does_not_begin():
    with pytest.raises(AuthenticationFailed):
        OAuthClient(NO_SECRET, {}).respond(b"")

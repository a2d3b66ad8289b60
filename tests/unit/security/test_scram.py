"""SCRAM: the example of RFC 7677, both sides against each other, and what must fail."""

import base64
import hmac
import re
from collections.abc import Callable

import pytest

from tidelog.metadata.scram_keys import (
    DIGESTS,
    SCRAM_NUMBERS,
    client_key,
    salt_of,
    salt_password,
    scram_record,
    stored_key,
)
from tidelog.model import Mechanism, Secret
from tidelog.security.sasl import AuthenticationFailed
from tidelog.security.scram import (
    Account,
    SaltedPasswords,
    ScramClient,
    ScramCredential,
    ScramServer,
    fake_credential,
)

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
BOTH = [Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512]
ENDS_AT = 9_000_000
USERS = {"user": "pencil", "a,b=c": "pencil"}


def credential(mechanism: Mechanism, password: str, iterations: int = 4096) -> ScramCredential:
    salted = salt_password(mechanism, password, SALT, iterations)
    record = scram_record("user", mechanism, salted, SALT, iterations)
    assert record.mechanism == SCRAM_NUMBERS[mechanism]
    return ScramCredential(SALT, record.stored_key, record.server_key, iterations)


class Known:
    """The users with their passwords, and the token `t1` of alice."""

    def of_user(self, mechanism: Mechanism, name: str) -> Account | None:
        return Account(name, credential(mechanism, USERS[name])) if name in USERS else None

    def of_token(self, mechanism: Mechanism, token_id: str) -> Account | None:
        code = credential(mechanism, "code")
        return Account("alice", code, ENDS_AT) if token_id == "t1" else None


def server(mechanism: Mechanism = BOTH[0]) -> ScramServer:
    return ScramServer(mechanism, Known(), SERVER_NONCE, b"the node's secret")


def client(
    mechanism: Mechanism = BOTH[0],
    name: str = "user",
    password: str = "pencil",
    is_token: bool = False,
) -> ScramClient:
    secret, salted = Secret(password), SaltedPasswords()
    return ScramClient(mechanism, name, secret, CLIENT_NONCE, salted, is_token=is_token)


def test_the_example_of_rfc_7677():
    them, us = server(), client()
    first = us.respond(b"")
    assert first == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = them.respond(first)
    assert challenge == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = us.respond(challenge)
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    outcome = them.respond(final)
    assert outcome == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert us.respond(outcome) == b""
    assert us.is_complete
    assert them.authenticated == "user"


@pytest.mark.parametrize("mechanism", BOTH)
@pytest.mark.parametrize("name", USERS)
def test_both_sides_agree(mechanism: Mechanism, name: str):
    them, us = server(mechanism), client(mechanism, name)
    us.respond(them.respond(us.respond(them.respond(us.respond(b"")))))
    assert us.is_complete
    assert them.authenticated == name


@pytest.mark.parametrize("mechanism", BOTH)
def test_old_clients_of_librdkafka_put_their_nonce_in_front_once_more(mechanism: Mechanism):
    """Up to 2.6.0, kcat of Debian among them. Kafka's server takes it, and the proof covers it."""
    them, us = server(mechanism), client(mechanism)
    first = us.respond(b"")
    challenge = them.respond(first).decode()
    unproved = f"c=biws,r={CLIENT_NONCE}{CLIENT_NONCE}{SERVER_NONCE}"
    signed = f"{first.decode().removeprefix('n,,')},{challenge},{unproved}".encode()
    key = client_key(mechanism, salt_password(mechanism, "pencil", SALT, 4096))
    signature = hmac.digest(stored_key(mechanism, key), signed, DIGESTS[mechanism])
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    them.respond(f"{unproved},p={base64.b64encode(proof).decode()}".encode())
    assert them.authenticated == "user"


def test_a_name_that_does_not_exist_fails_where_a_wrong_password_does():
    challenges = []
    for name, password in (("user", "wrong"), ("mallory", "pencil"), ("mallory", "pencil")):
        them, us = server(), client(name=name, password=password)
        challenges.append(them.respond(us.respond(b"")))
        with pytest.raises(AuthenticationFailed) as refused:
            them.respond(us.respond(challenges[-1]))
        assert refused.value.message == ""
        assert them.authenticated is None
    shapes = {re.sub(rb"s=[^,]+", b"s=", challenge) for challenge in challenges}
    assert len(shapes) == 1
    assert challenges[1] == challenges[2], "its salt is the same each time"


@pytest.mark.parametrize(
    "first",
    [
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,m=x,n=user,r=abc",
        b"n,,n=user",
        b"n,,n=,r=abc",
        b"n,,n=us=er,r=abc",
        b"n,,n=us\xc3\xa9r,r=abc",
        b"n,,n=user,r=a c",
        b"\xff",
        b"",
        b"n,,n=user,r=" + b"a" * 20_000,
    ],
)
def test_a_bad_first_message_fails(first: bytes):
    with pytest.raises(AuthenticationFailed) as refused:
        server().respond(first)
    assert refused.value.message == ""


def test_extensions_are_ignored_in_the_first_message_only():
    assert server().respond(b"n,,n=user,r=abc,tokenauth=false".replace(b"tokenauth", b"x"))
    assert server().respond(b"n,a=user,n=user,r=abc").startswith(b"r=abc")


def test_another_authorization_id_fails_in_words():
    with pytest.raises(AuthenticationFailed) as refused:
        server().respond(b"n,a=admin,n=user,r=abc")
    assert "different from username" in refused.value.message


@pytest.mark.parametrize(
    "spoil",
    [
        lambda final: final.replace(b"c=biws", b"c=eSws"),
        lambda final: final.replace(b"hvYD", b"hvYE"),
        lambda final: final.replace(b"p=", b"x=1,p="),
        lambda final: final.replace(b"=dHzb", b"=dHza"),
        lambda final: re.sub(rb"p=.*", b"p=dHzb", final),
        lambda final: re.sub(rb"p=.*", b"p=d", final),
        lambda final: b"",
    ],
)
def test_a_spoilt_final_message_fails(spoil: Callable[[bytes], bytes]):
    them, us = server(), client()
    final = us.respond(them.respond(us.respond(b"")))
    with pytest.raises(AuthenticationFailed):
        them.respond(spoil(final))
    assert them.authenticated is None


def test_a_final_message_is_worth_nothing_in_another_login():
    them, us = server(), client()
    final = us.respond(them.respond(us.respond(b"")))
    other = ScramServer(BOTH[0], Known(), "anotherNonce", b"secret")
    other.respond(b"n,,n=user,r=" + CLIENT_NONCE.encode())
    with pytest.raises(AuthenticationFailed):
        other.respond(final)


def test_nothing_follows_the_final_message():
    them, us = server(), client()
    final = us.respond(them.respond(us.respond(b"")))
    them.respond(final)
    with pytest.raises(AuthenticationFailed):
        them.respond(final)


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=other,s=W22Z,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqO,s=W22Z,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=W22Z,i=4095",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=W22Z,i=16385",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=W22Z",
        b"e=other-error",
    ],
)
def test_a_client_trusts_no_bad_server(challenge: bytes):
    us = client()
    us.respond(b"")
    with pytest.raises(AuthenticationFailed):
        us.respond(challenge)


def test_a_server_that_does_not_know_the_password_is_found_out():
    them, us = server(), client()
    us.respond(them.respond(us.respond(b"")))
    with pytest.raises(AuthenticationFailed):
        us.respond(b"v=" + base64.b64encode(bytes(32)))
    assert not us.is_complete


def test_a_password_is_salted_once():
    salted = SaltedPasswords()
    one = salted.get(BOTH[0], Secret("pencil"), SALT, 4096)
    assert salted.get(BOTH[0], Secret("pencil"), SALT, 4096) is one
    assert salted.get(BOTH[0], Secret("pencil"), SALT, 4097) != one


def test_credentials_and_messages_print_no_key():
    shown = repr(credential(BOTH[0], "pencil"))
    assert "stored_key" not in shown
    assert "iterations" in shown


def test_a_salt_does_not_say_whether_there_is_a_user():
    """Kafka's tools draw 130 bits and write them in base 36; so do we, for users and for others."""
    for number in range(50):
        fake = fake_credential(Mechanism.SCRAM_SHA_256, f"user{number}", b"secret")
        assert re.fullmatch(rb"[0-9a-z]{20,26}", fake.salt)
    assert salt_of(bytes(17)) == b"0"
    assert int(salt_of(b"\xff" * 32), 36) == 2**130 - 1


@pytest.mark.parametrize("mechanism", BOTH)
def test_a_token_logs_its_owner_in_until_it_ends(mechanism: Mechanism):
    them, us = server(mechanism), client(mechanism, "t1", "code", is_token=True)
    us.respond(them.respond(us.respond(them.respond(us.respond(b"")))))
    assert us.is_complete
    assert (them.authenticated, them.ends_at_wall_ms) == ("alice", ENDS_AT)
    assert them.is_delegated


@pytest.mark.parametrize(
    ("name", "password", "is_token", "reason"),
    [
        ("t1", "code", False, "a user that does not exist"),
        ("user", "pencil", True, "a token that does not exist"),
        ("t1", "pencil", True, "a wrong password"),
    ],
)
def test_users_and_tokens_are_not_taken_for_each_other(
    name: str, password: str, is_token: bool, reason: str
):
    """Nor does the first answer say whether there is such a token."""
    them, us = server(), client(name=name, password=password, is_token=is_token)
    with pytest.raises(AuthenticationFailed, match=reason):
        them.respond(us.respond(them.respond(us.respond(b""))))
    assert them.authenticated is None

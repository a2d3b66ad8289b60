"""Secrets are compared in a time that does not depend on where they differ (CVE-2021-38153).

Method: Python's `hmac.compare_digest` is listened to while logins and tokens come in over the wire.
A comparison that is made in another way is missing, one of unequal lengths would show the length.
"""

import hmac
from collections.abc import Iterator

import pytest

from tests.unit.broker.logged_in import add_user, log_in
from tests.unit.broker.one_node import OneNode
from tests.unit.broker.token_holders import create, expire, renew, token_node, user
from tidelog.errors import ErrorCode
from tidelog.metadata.scram_keys import SCRAM_NUMBERS
from tidelog.model import Mechanism
from tidelog.security.client_login import LoginRefused
from tidelog.wire.values import error_of

Pairs = list[tuple[bytes, bytes]]
SCRAM = (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)


@pytest.fixture
def node() -> OneNode:
    return token_node()


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pairs]:
    """What has been compared in constant time; every comparison is of equal lengths."""
    pairs: Pairs = []
    real = hmac.compare_digest

    def listened(one: bytes, other: bytes) -> bool:
        pairs.append((one, other))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", listened)
    yield pairs
    assert [len(one) for one, _ in pairs] == [len(other) for _, other in pairs]


@pytest.mark.parametrize("name", ["alice", "eve"])
def test_a_wrong_password_of_plain(node: OneNode, compared: Pairs, name: str):
    """A name that does not exist costs the same comparison."""
    with pytest.raises(LoginRefused):
        log_in(node.client(), Mechanism.PLAIN, name, "wrong")
    ((one, other),) = compared
    assert one != other


def test_the_right_password_of_plain(node: OneNode, compared: Pairs):
    user(node, "alice")
    ((one, other),) = compared
    assert one == other


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize("name", ["bob", "eve"])
def test_a_wrong_proof_of_scram(node: OneNode, compared: Pairs, mechanism: Mechanism, name: str):
    add_user(node, "bob", "bob-s3cret", mechanism)
    with pytest.raises(LoginRefused):
        log_in(node.client(), mechanism, name, "wrong")
    ((one, other),) = compared
    assert one != other


@pytest.mark.parametrize("mechanism", SCRAM)
def test_both_sides_of_scram_compare(node: OneNode, compared: Pairs, mechanism: Mechanism):
    """The server the client's proof, the client the server's signature."""
    add_user(node, "bob", "bob-s3cret", mechanism)
    log_in(node.client(), mechanism, "bob", "bob-s3cret")
    (proof, stored), (signature, expected) = compared
    number = SCRAM_NUMBERS[mechanism]
    credential = node.broker.image.scram_credential("bob", number)
    assert credential is not None and proof == stored == credential.stored_key
    assert signature == expected


@pytest.mark.parametrize("ask", [renew, expire])
def test_codes_of_tokens(node: OneNode, compared: Pairs, ask):
    wire = user(node, "alice")
    made = create(wire)
    compared.clear()
    assert error_of(ask(wire, made.hmac).error_code) is ErrorCode.NONE
    assert compared == [(made.hmac, made.hmac)]
    wrong = bytes(len(made.hmac))
    assert error_of(ask(wire, wrong).error_code) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert compared[1:] in ([(made.hmac, wrong)], [])

"""Delegation tokens decided: whose, for how long, and by whom they are renewed and ended."""

from dataclasses import replace

import pytest

from tests.unit.controller.harness import CONFIG, a_view
from tidelog.controller.delegation_tokens import (
    decide_create_token,
    decide_expire_token,
    decide_renew_token,
    expired_tokens,
)
from tidelog.controller.token_messages import CreateToken, ExpireToken, RenewToken, TokenExpiry
from tidelog.controller.view import View
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.limits import MAX_DELEGATION_TOKENS
from tidelog.metadata.delegation_tokens import code_of
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE
from tidelog.metadata.records import DelegationTokenRecord, RemoveDelegationTokenRecord
from tidelog.model import NO_SECRET, Principal, Secret

KEY = Secret("key")
ADA, BOB, EVE = (Principal("User", name) for name in ("ada", "bob", "eve"))
NOW, DAY, WEEK = 1_000_000, 86_400_000, 604_800_000
TOKEN = DelegationTokenRecord(
    owner="User:ada",
    requester="User:ada",
    renewers=("User:bob",),
    issue_timestamp=NOW - DAY // 2,
    max_timestamp=NOW + 3 * DAY,
    expiration_timestamp=NOW + DAY // 2,
    token_id="t1",
)
CODE = code_of(KEY, "t1")


def view_of(*tokens: DelegationTokenRecord, key: Secret = KEY) -> View:
    delta = MetadataDelta(EMPTY_IMAGE)
    for offset, record in enumerate(tokens):
        delta.replay(record, offset)
    view = a_view(delta.apply(len(tokens), 1), config=replace(CONFIG, token_secret=key))
    return replace(view, wall_ms=NOW)


def wish(**values: object) -> CreateToken:
    return CreateToken(Principal("", ""), (BOB,), 0, ADA)._replace(**values)


def test_a_token_belongs_to_who_asks_and_lives_a_day_at_first():
    decision = decide_create_token(view_of(), wish())
    result, record = decision.response, decision.records[0]
    assert (result.owner, result.requester) == (ADA, ADA)
    assert (result.issue_ms, result.expiry_ms, result.max_ms) == (NOW, NOW + DAY, NOW + WEEK)
    assert result.hmac == code_of(KEY, result.token_id)
    assert record.renewers == ("User:bob",)
    assert (record.owner, record.requester) == ("User:ada", "User:ada")
    assert record.expiration_timestamp == NOW + DAY
    assert result.hmac not in repr(record).encode()


def test_a_token_may_be_another_users():
    result = decide_create_token(view_of(), wish(owner=EVE)).response
    assert (result.owner, result.requester) == (EVE, ADA)


@pytest.mark.parametrize(
    ("asked_ms", "lives_ms"), [(-1, WEEK), (0, WEEK), (DAY, DAY), (5, 5), (2 * WEEK, WEEK)]
)
def test_a_token_lives_as_long_as_asked_at_most(asked_ms: int, lives_ms: int):
    result = decide_create_token(view_of(), wish(max_lifetime_ms=asked_ms)).response
    assert result.max_ms == NOW + lives_ms
    assert result.expiry_ms == NOW + min(DAY, lives_ms)


def test_a_cluster_has_so_many_tokens():
    tokens = [replace(TOKEN, token_id=str(number)) for number in range(MAX_DELEGATION_TOKENS)]
    with pytest.raises(ProtocolError) as refused:
        decide_create_token(view_of(*tokens), wish())
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize("who", [ADA, BOB])
@pytest.mark.parametrize(
    ("asked_ms", "later_ms"), [(-1, DAY), (5, 5), (2 * DAY, DAY), (4 * DAY, DAY)]
)
def test_a_renewal_puts_the_end_off(who: Principal, asked_ms: int, later_ms: int):
    decision = decide_renew_token(view_of(TOKEN), RenewToken(CODE, asked_ms, who))
    assert decision.response == TokenExpiry(NOW + later_ms)
    assert decision.records == [replace(TOKEN, expiration_timestamp=NOW + later_ms)]


def test_no_renewal_goes_beyond_the_longest_life():
    token = replace(TOKEN, max_timestamp=NOW + 7)
    decision = decide_renew_token(view_of(token), RenewToken(CODE, -1, ADA))
    assert decision.response == TokenExpiry(NOW + 7)


def test_a_token_ends_later_or_at_once():
    later = decide_expire_token(view_of(TOKEN), ExpireToken(CODE, 7, BOB))
    assert later.response == TokenExpiry(NOW + 7)
    assert later.records == [replace(TOKEN, expiration_timestamp=NOW + 7)]
    at_once = decide_expire_token(view_of(TOKEN), ExpireToken(CODE, -1, ADA))
    assert at_once.response == TokenExpiry(NOW)
    assert at_once.records == [RemoveDelegationTokenRecord(token_id="t1")]


OVER = replace(TOKEN, expiration_timestamp=NOW - 1)


@pytest.mark.parametrize("decide", [decide_renew_token, decide_expire_token])
@pytest.mark.parametrize(
    ("token", "key", "code", "who", "refused"),
    [
        (TOKEN, NO_SECRET, CODE, ADA, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
        (TOKEN, KEY, b"other", ADA, ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
        (TOKEN, KEY, CODE, EVE, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (OVER, KEY, CODE, ADA, ErrorCode.DELEGATION_TOKEN_EXPIRED),
    ],
)
def test_what_is_refused(decide, token, key: Secret, code: bytes, who, refused: ErrorCode):
    message = RenewToken if decide is decide_renew_token else ExpireToken
    with pytest.raises(ProtocolError) as raised:
        decide(view_of(token, key=key), message(code, 5, who))
    assert raised.value.code is refused


def test_a_token_that_has_expired_can_be_removed():
    decision = decide_expire_token(view_of(OVER), ExpireToken(CODE, -1, ADA))
    assert decision.records == [RemoveDelegationTokenRecord(token_id="t1")]


def test_what_has_expired_is_removed_some_at_a_time():
    over = [replace(OVER, token_id=f"over{number}") for number in range(3)]
    removed = expired_tokens(view_of(TOKEN, *over), 2)
    assert [record.token_id for record in removed] == ["over0", "over1"]
    assert expired_tokens(view_of(TOKEN), 2) == []

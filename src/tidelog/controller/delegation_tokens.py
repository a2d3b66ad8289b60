"""Delegation tokens: made for users, renewed, ended (KIP-48).

A token has an owner, as whom its holder logs in, a requester, who asked for it, and renewers. It
ends at its expiry, which owner and renewers put off up to its longest life. They name the token by
its code, so a token of others cannot be touched by its id.

The times are wall time of the controller that decides; a controller whose clock is ahead ends
tokens early. A token that has expired begins no session, and is removed every
`delegation.token.expiry.check.interval.ms`.

A request that is repeated after a change of controllers may make a second token, which expires
unused, or find that the token is gone already: TOKEN_NOT_FOUND, as in Kafka.

Which connections may ask at all, and for whom, is decided before (`broker/token_rules.py`).

Source: KIP-48, KIP-373; Kafka's `DelegationTokenControlManager`.
"""

import hmac
from dataclasses import replace
from itertools import islice
from typing import Final

from tidelog.controller.token_messages import (
    CreateToken,
    CreateTokenResult,
    ExpireToken,
    RenewToken,
    TokenExpiry,
)
from tidelog.controller.view import ControllerDecision, View
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.limits import MAX_DELEGATION_TOKENS
from tidelog.metadata.delegation_tokens import code_of
from tidelog.metadata.records import DelegationTokenRecord, RemoveDelegationTokenRecord
from tidelog.model import Principal, uuid_to_text

_LATEST_MS: Final = 253_402_300_799_999
"""The end of the year 9999; answers have no later time."""


def decide_create_token(view: View, request: CreateToken) -> ControllerDecision:
    """A token with a new id."""
    config = view.config
    _check_enabled(view)
    if len(view.image.tokens()) >= MAX_DELEGATION_TOKENS:
        text = f"the cluster has {MAX_DELEGATION_TOKENS} delegation tokens already"
        raise ProtocolError(ErrorCode.POLICY_VIOLATION, text)
    owner = request.owner if request.owner.name else request.requester
    longest_ms = config.token_max_lifetime_ms
    if request.max_lifetime_ms > 0:
        longest_ms = min(longest_ms, request.max_lifetime_ms)
    max_ms = min(view.wall_ms + longest_ms, _LATEST_MS)
    record = DelegationTokenRecord(
        owner=str(owner),
        requester=str(request.requester),
        renewers=tuple(map(str, request.renewers)),
        issue_timestamp=view.wall_ms,
        max_timestamp=max_ms,
        expiration_timestamp=min(max_ms, view.wall_ms + config.token_expiry_time_ms),
        token_id=uuid_to_text(view.prng.uuid()),
    )
    result = CreateTokenResult(
        owner=owner,
        requester=request.requester,
        issue_ms=record.issue_timestamp,
        expiry_ms=record.expiration_timestamp,
        max_ms=max_ms,
        token_id=record.token_id,
        hmac=code_of(config.token_secret, record.token_id),
    )
    return ControllerDecision(result, [record])


def decide_renew_token(view: View, request: RenewToken) -> ControllerDecision:
    """A later expiry."""
    token = _find(view, request.hmac)
    _check_alive(view, token)
    _check_may_renew(token, request.requester)
    period_ms = view.config.token_expiry_time_ms
    if request.period_ms > 0:
        period_ms = min(period_ms, request.period_ms)
    return _ends_after(view, token, period_ms)


def decide_expire_token(view: View, request: ExpireToken) -> ControllerDecision:
    """Another expiry, or none: the token is removed."""
    token = _find(view, request.hmac)
    _check_may_renew(token, request.requester)
    if request.period_ms < 0:
        removed = RemoveDelegationTokenRecord(token_id=token.token_id)
        return ControllerDecision(TokenExpiry(view.wall_ms), [removed])
    _check_alive(view, token)
    return _ends_after(view, token, request.period_ms)


def expired_tokens(view: View, most: int) -> list[RemoveDelegationTokenRecord]:
    """The removal of up to so many tokens whose time is over."""
    over = (token for token in view.image.tokens() if _is_over(view, token))
    return [RemoveDelegationTokenRecord(token_id=token.token_id) for token in islice(over, most)]


def _ends_after(view: View, token: DelegationTokenRecord, period_ms: int) -> ControllerDecision:
    expiry_ms = min(token.max_timestamp, view.wall_ms + period_ms)
    changed = replace(token, expiration_timestamp=expiry_ms)
    return ControllerDecision(TokenExpiry(expiry_ms), [changed])


def _check_enabled(view: View) -> None:
    if not view.config.token_secret:
        text = "Delegation tokens are not enabled"
        raise ProtocolError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, text)


def _find(view: View, code: bytes) -> DelegationTokenRecord:
    """The token with a code. Raises `ProtocolError`."""
    _check_enabled(view)
    secret = view.config.token_secret
    for token in view.image.tokens():
        if hmac.compare_digest(code_of(secret, token.token_id), code):
            return token
    raise ProtocolError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "no token has this code")


def _check_may_renew(token: DelegationTokenRecord, requester: Principal) -> None:
    if str(requester) not in (token.owner, *token.renewers):
        text = "neither the owner of the token nor one of its renewers"
        raise ProtocolError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, text)


def _check_alive(view: View, token: DelegationTokenRecord) -> None:
    if _is_over(view, token):
        raise ProtocolError(ErrorCode.DELEGATION_TOKEN_EXPIRED, "the token has expired")


def _is_over(view: View, token: DelegationTokenRecord) -> bool:
    return min(token.max_timestamp, token.expiration_timestamp) < view.wall_ms

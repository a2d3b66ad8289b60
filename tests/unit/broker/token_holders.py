"""A node that gives out delegation tokens, its users, and what logs in with a token.

node = token_node()
made = create(user(node, "alice"))
wire = holder(node, made)
"""

from base64 import b64encode
from typing import Any

from tests.unit.broker.logged_in import PASSWORDS, log_in, login_node
from tests.unit.broker.one_node import OneNode, Wire
from tidelog.config.values import STANDARD_AUTHORIZER
from tidelog.env.trace import Level
from tidelog.model import Mechanism
from tidelog.wire.api import ApiKey


def token_node(*, trace_level: Level = Level.INFO, **settings: str) -> OneNode:
    """With an authorizer; `node` may do everything."""
    given = {
        "delegation_token_secret_key": "the key of all nodes",
        "authorizer_class_name": STANDARD_AUTHORIZER,
        "super_users": "User:node;User:ANONYMOUS",
    }
    return login_node(trace_level=trace_level, **given | settings)


def user(node: OneNode, name: str) -> Wire:
    """A connection of a user with a password."""
    wire = node.client()
    log_in(wire, Mechanism.PLAIN, name, PASSWORDS[name])
    return wire


def holder(node: OneNode, made: Any) -> Wire:
    """A connection that a token has begun."""
    wire, code = node.client(), b64encode(made.hmac).decode()
    log_in(wire, Mechanism.SCRAM_SHA_256, made.token_id, code, is_delegated=True)
    return wire


def principal(name: str, kind: str = "User") -> dict[str, str]:
    """A row of a request."""
    return {"principal_type": kind, "principal_name": name}


def create(
    wire: Wire,
    owner: str | None = None,
    renewers: tuple[dict[str, str], ...] = (),
    max_lifetime: int = -1,
) -> Any:
    """The answer to CreateDelegationToken."""
    return wire.call(
        ApiKey.CREATE_DELEGATION_TOKEN,
        3,
        owner_principal_type=None if owner is None else "User",
        owner_principal_name=owner,
        renewers=renewers,
        max_lifetime=max_lifetime,
    )


def renew(wire: Wire, code: bytes, period: int = -1) -> Any:
    """The answer to RenewDelegationToken."""
    return wire.call(ApiKey.RENEW_DELEGATION_TOKEN, 2, hmac=code, renew_period=period)


def expire(wire: Wire, code: bytes, period: int = -1) -> Any:
    """The answer to ExpireDelegationToken."""
    return wire.call(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, hmac=code, expiry_time_period=period)


def describe(wire: Wire, *owners: str, of_all: bool = False) -> Any:
    """The answer to DescribeDelegationToken."""
    rows = None if of_all else tuple(map(principal, owners))
    return wire.call(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, owners=rows)

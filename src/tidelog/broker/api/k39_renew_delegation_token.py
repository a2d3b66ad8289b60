"""RenewDelegationToken (39), versions 1-2, decided by the active controller.

The token with this code ends later: after the period that is asked for, at most
`delegation.token.expiry.time.ms` from now, and never after its longest life. Its owner and its
renewers may do it; DELEGATION_TOKEN_OWNER_MISMATCH for others, DELEGATION_TOKEN_NOT_FOUND for
another code, DELEGATION_TOKEN_EXPIRED once it has ended. Who may ask at all is in
`broker/token_rules.py`.
"""

from typing import Final

from tidelog.broker.api.answers import Answer, answer, reply
from tidelog.broker.api.checks import NOTHING
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.broker.api.k38_create_delegation_token import time_at
from tidelog.controller.messages import Refused
from tidelog.controller.token_messages import RenewToken, TokenExpiry
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.shapes import Shape
from tidelog.wire.values import timestamp

RESULT: Final[Answer[object, TokenExpiry]] = answer(
    TokenExpiry, expiry_ms=time_at("expiry_timestamp")
)


def refusal_of(response_type: type, _: Entity, refused: Refused) -> Entity:
    """The answer with the code, and no time."""
    return reply(response_type, error_code=refused.error_code, expiry_timestamp=timestamp(0))


API: Final = ControllerApi(
    key=ApiKey.RENEW_DELEGATION_TOKEN,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(1, 2),
    requires=NOTHING,
    message=Shape(RenewToken, period_ms="renew_period"),
    result=RESULT,
    refusal_of=refusal_of,
)

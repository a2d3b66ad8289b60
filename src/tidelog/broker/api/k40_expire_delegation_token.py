"""ExpireDelegationToken (40), versions 1-2, decided by the active controller.

The token with this code ends after the period that is asked for, and at once, removed, for a period
below zero. Its owner and its renewers may do it. Sessions that it has begun go on to the end that
they were given. Codes are those of RenewDelegationToken.
"""

from typing import Final

from tidelog.broker.api.checks import NOTHING
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.broker.api.k39_renew_delegation_token import RESULT, refusal_of
from tidelog.controller.token_messages import ExpireToken
from tidelog.wire.api import ApiKey
from tidelog.wire.shapes import Shape

API: Final = ControllerApi(
    key=ApiKey.EXPIRE_DELEGATION_TOKEN,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(1, 2),
    requires=NOTHING,
    message=Shape(ExpireToken, period_ms="expiry_time_period"),
    result=RESULT,
    refusal_of=refusal_of,
)

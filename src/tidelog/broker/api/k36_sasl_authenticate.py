"""SaslAuthenticate (36), versions 0-2: one message of a login, and the answer of the mechanism.

With the last answer comes the lifetime of the session, if it has one; the client logs in again
before it ends (KIP-368). A failed login is SASL_AUTHENTICATION_FAILED, answered late, and the
connection is closed. The text says no more than the client knows: not whether the user exists.
"""

from typing import Final, Protocol

from tidelog.broker.api.checks import NOTHING
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, HotApi, VersionRange
from tidelog.broker.api.needs import HasLogins
from tidelog.broker.connections import RequestContext
from tidelog.env.instant import Instant
from tidelog.wire.api import ApiKey
from tidelog.wire.sasl import pack_authenticate_response, parse_authenticate


class Node(HasLogins, Protocol):
    """What SaslAuthenticate needs."""


def handle(
    node: Node, context: RequestContext, frame: memoryview, offset: int, now: Instant
) -> None:
    """Takes one message."""
    _, version, correlation_id, _ = context.header
    step = node.logins.authenticate(context, parse_authenticate(version, frame, offset), now)
    answer = pack_authenticate_response(
        version, correlation_id, step.code, step.message, step.token, step.session_ms
    )
    node.logins.answer(context, step, answer, now)


API: Final = HotApi(
    key=ApiKey.SASL_AUTHENTICATE,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 2),
    sent_version=2,
    requires=NOTHING,
    handle=handle,
)

"""SaslHandshake (17), versions 0-1: the mechanism by which a client will log in.

The answer lists the mechanisms of the listener. After version 0 the mechanism's messages follow
without headers, after version 1 in SaslAuthenticate. On a listener without logins, and when it is
not time to log in again, the answer is ILLEGAL_SASL_STATE without a list.
"""

from typing import Final, Protocol

from tidelog.broker.api.checks import NOTHING
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, HotApi, VersionRange
from tidelog.broker.api.needs import HasLogins
from tidelog.broker.connections import RequestContext
from tidelog.env.instant import Instant
from tidelog.wire.api import ApiKey
from tidelog.wire.sasl import pack_handshake_response, parse_handshake


class Node(HasLogins, Protocol):
    """What SaslHandshake needs."""


def handle(
    node: Node, context: RequestContext, frame: memoryview, offset: int, now: Instant
) -> None:
    """Begins a login."""
    step = node.logins.handshake(context, parse_handshake(frame, offset), now)
    answer = pack_handshake_response(context.header.correlation_id, step.code, step.mechanisms)
    node.logins.answer(context, step, answer, now)


API: Final = HotApi(
    key=ApiKey.SASL_HANDSHAKE,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 1),
    sent_version=1,
    requires=NOTHING,
    handle=handle,
)

"""FindCoordinator (10), versions 0-6: there are no coordinators yet.

Groups and transactions have no coordinator in this version of the broker, so every key answers
COORDINATOR_NOT_AVAILABLE, which clients retry. Key types: 0 group, 1 transaction, 2 share group;
any other is INVALID_REQUEST.
"""

from typing import Final

from tidelog.broker.api.answers import reply
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.connections import RequestContext
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field


def handle(node: object, context: RequestContext, request: Entity, now: Instant) -> None:
    """Answers every key with the same error."""
    code, message = ErrorCode.COORDINATOR_NOT_AVAILABLE, "this broker hosts no coordinators"
    if field(request, "key_type", 0) not in (0, 1, 2):
        code, message = ErrorCode.INVALID_REQUEST, "unknown key type"
    place = {"node_id": -1, "host": "", "port": -1, "error_code": code, "error_message": message}
    keys = field(request, "coordinator_keys", ())
    coordinators = [{"key": key, **place} for key in keys]
    context.answer(reply(context.response_type, coordinators=coordinators, **place))


API: Final = LocalApi(
    key=ApiKey.FIND_COORDINATOR,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 6),
    requires=(
        on(Operation.DESCRIBE, ResourceType.GROUP, condition="key type 0"),
        on(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, condition="key type 1"),
        on(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, condition="key type 2"),
    ),
    handle=handle,
)

"""FindCoordinator (10), versions 0-6: no coordinator lives here yet.

Groups and transactions have no coordinator in this version of the broker, so every key answers
COORDINATOR_NOT_AVAILABLE, which clients retry. Key types: 0 group, 1 transaction, 2 share group;
any other is INVALID_REQUEST.
"""

from tidelog.broker.connections import PendingRequest
from tidelog.broker.context import Broker
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.wire import codec
from tidelog.wire.entities import Entity, field, has_field, make, nested
from tidelog.wire.values import error, millis


def handle(broker: Broker, pending: PendingRequest, request: Entity, now: Instant) -> None:
    """Answers every key with the same error."""
    response_type = codec.response_class(10, pending.header.api_version)
    code, message = ErrorCode.COORDINATOR_NOT_AVAILABLE, "this broker hosts no coordinators"
    if field(request, "key_type", 0) not in (0, 1, 2):
        code, message = ErrorCode.INVALID_REQUEST, "unknown key type"
    place = {
        "node_id": -1,
        "host": "",
        "port": -1,
        "error_code": error(code),
        "error_message": message,
    }
    if has_field(response_type, "coordinators"):
        item_type = nested(response_type, "coordinators")
        coordinators = tuple(make(item_type, key=key, **place) for key in request.coordinator_keys)
        entity = make(response_type, throttle_time=millis(0), coordinators=coordinators)
    else:
        entity = make(response_type, throttle_time=millis(0), **place)
    broker.answer(pending, entity)

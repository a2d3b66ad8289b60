"""BrokerHeartbeat (63), versions 0-2 (sent at 1): a broker is alive and says what it wants."""

from typing import TYPE_CHECKING, Final

from tidelog.broker.api.refusals import code_of
from tidelog.controller.messages import (
    BrokerHeartbeat,
    BrokerHeartbeatResult,
    Refused,
    Response,
)
from tidelog.errors import ErrorCode
from tidelog.model import Uuid
from tidelog.wire import codec
from tidelog.wire.entities import Entity, field, make
from tidelog.wire.values import bytes_of, error, error_of, millis, uuid_of

if TYPE_CHECKING:
    from tidelog.broker.context import Broker

VERSION: Final = 1


def message_of(request: Entity) -> BrokerHeartbeat:
    """The controller's message."""
    offline = field(request, "offline_log_dirs", ())
    return BrokerHeartbeat(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        current_metadata_offset=request.current_metadata_offset,
        want_fence=request.want_fence,
        want_shut_down=request.want_shut_down,
        offline_log_dirs=tuple(Uuid(bytes_of(item)) for item in offline),
    )


def entity_of(broker: "Broker", version: int, request: Entity, response: Response) -> Entity:
    """The reply; a refused broker is told that it is fenced."""
    result = response
    if not isinstance(result, BrokerHeartbeatResult):
        result = BrokerHeartbeatResult(False, True, False)
    return make(
        codec.response_class(63, version),
        throttle_time=millis(0),
        error_code=error(code_of(response)),
        is_caught_up=result.is_caught_up,
        is_fenced=result.is_fenced,
        should_shut_down=result.should_shut_down,
    )


def request_of(message: BrokerHeartbeat) -> Entity:
    """The wire request."""
    return make(
        codec.request_class(63, VERSION),
        broker_id=message.broker_id,
        broker_epoch=message.broker_epoch,
        current_metadata_offset=message.current_metadata_offset,
        want_fence=message.want_fence,
        want_shut_down=message.want_shut_down,
        offline_log_dirs=tuple(uuid_of(item) for item in message.offline_log_dirs),
    )


def response_of(message: BrokerHeartbeat, entity: Entity) -> Response:
    """The controller's answer."""
    code = error_of(entity.error_code)
    if code is not ErrorCode.NONE:
        return Refused(code, code.name)
    return BrokerHeartbeatResult(entity.is_caught_up, entity.is_fenced, entity.should_shut_down)

"""BrokerHeartbeat (63), versions 0-2 (sent at 1): a broker is alive, and asks to be
unfenced, fenced or shut down.
"""

from typing import Final

from tidelog.broker.api.answers import refused_at_top, reply
from tidelog.broker.api.declaration import CONTROLLERS, ControllerApi, Sending, VersionRange
from tidelog.controller.messages import BrokerHeartbeat, BrokerHeartbeatResult
from tidelog.model import Uuid
from tidelog.security.rights import CLUSTER_ACTION
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field, make
from tidelog.wire.values import bytes_of, uuid_of


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


def entity_of(
    node: object, response_type: type, request: Entity, result: BrokerHeartbeatResult
) -> Entity:
    """The reply."""
    return reply(
        response_type,
        is_caught_up=result.is_caught_up,
        is_fenced=result.is_fenced,
        should_shut_down=result.should_shut_down,
    )


def request_of(request_type: type, message: BrokerHeartbeat) -> Entity:
    """The wire request."""
    return make(
        request_type,
        broker_id=message.broker_id,
        broker_epoch=message.broker_epoch,
        current_metadata_offset=message.current_metadata_offset,
        want_fence=message.want_fence,
        want_shut_down=message.want_shut_down,
        offline_log_dirs=tuple(uuid_of(item) for item in message.offline_log_dirs),
    )


def result_of(entity: Entity) -> BrokerHeartbeatResult:
    """What the controller sees and wants."""
    return BrokerHeartbeatResult(entity.is_caught_up, entity.is_fenced, entity.should_shut_down)


API: Final = ControllerApi(
    key=ApiKey.BROKER_HEARTBEAT,
    doc=__doc__,
    listeners=CONTROLLERS,
    versions=VersionRange(0, 2),
    sent_version=1,
    requires=CLUSTER_ACTION,
    message=BrokerHeartbeat,
    result=BrokerHeartbeatResult,
    message_of=message_of,
    entity_of=entity_of,
    refusal_of=refused_at_top(is_caught_up=False, is_fenced=True, should_shut_down=False),
    sending=Sending(request_of=request_of, result_of=result_of),
)

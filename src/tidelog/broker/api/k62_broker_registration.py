"""BrokerRegistration (62): a broker process introduces itself to the active controller.

Served at versions 0-4, sent at version 4.
"""

from typing import TYPE_CHECKING, Final

from tidelog.broker.api.refusals import code_of
from tidelog.controller.messages import (
    FeatureRange,
    Refused,
    RegisterBroker,
    RegisterBrokerResult,
    Response,
)
from tidelog.errors import ErrorCode
from tidelog.model import Endpoint, Uuid
from tidelog.wire import codec
from tidelog.wire.entities import Entity, field, make, nested
from tidelog.wire.values import bytes_of, error, error_of, millis, uuid_of

if TYPE_CHECKING:
    from tidelog.broker.context import Broker

VERSION: Final = 4
PLAINTEXT: Final = 0


def message_of(request: Entity) -> RegisterBroker:
    """The controller's message."""
    return RegisterBroker(
        broker_id=request.broker_id,
        cluster_id=request.cluster_id,
        incarnation_id=Uuid(bytes_of(request.incarnation_id)),
        endpoints=tuple(Endpoint(item.name, item.host, item.port) for item in request.listeners),
        rack=request.rack,
        features={
            item.name: FeatureRange(item.min_supported_version, item.max_supported_version)
            for item in request.features
        },
        log_dirs=tuple(Uuid(bytes_of(item)) for item in field(request, "log_dirs", ())),
        previous_broker_epoch=field(request, "previous_broker_epoch", -1),
    )


def entity_of(broker: "Broker", version: int, request: Entity, response: Response) -> Entity:
    """The reply."""
    epoch = response.broker_epoch if isinstance(response, RegisterBrokerResult) else -1
    return make(
        codec.response_class(62, version),
        throttle_time=millis(0),
        error_code=error(code_of(response)),
        broker_epoch=epoch,
    )


def request_of(message: RegisterBroker) -> Entity:
    """The wire request."""
    request_type = codec.request_class(62, VERSION)
    listener_type = nested(request_type, "listeners")
    feature_type = nested(request_type, "features")
    return make(
        request_type,
        broker_id=message.broker_id,
        cluster_id=message.cluster_id,
        incarnation_id=uuid_of(message.incarnation_id),
        listeners=tuple(
            make(
                listener_type,
                name=end.listener,
                host=end.host,
                port=end.port,
                security_protocol=PLAINTEXT,
            )
            for end in message.endpoints
        ),
        features=tuple(
            make(
                feature_type,
                name=name,
                min_supported_version=levels.min_level,
                max_supported_version=levels.max_level,
            )
            for name, levels in sorted(message.features.items())
        ),
        rack=message.rack,
        is_migrating_zk_broker=False,
        log_dirs=tuple(uuid_of(item) for item in message.log_dirs),
        previous_broker_epoch=message.previous_broker_epoch,
    )


def response_of(message: RegisterBroker, entity: Entity) -> Response:
    """The controller's answer."""
    code = error_of(entity.error_code)
    if code is not ErrorCode.NONE:
        return Refused(code, code.name)
    return RegisterBrokerResult(entity.broker_epoch)

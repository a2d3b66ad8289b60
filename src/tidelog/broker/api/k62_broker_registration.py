"""BrokerRegistration (62): a broker process introduces itself to the active controller.

Served at versions 0-4, sent at version 4.
"""

from typing import Final

from tidelog.broker.api.answers import refused_at_top, reply
from tidelog.broker.api.declaration import CONTROLLERS, ControllerApi, Sending, VersionRange
from tidelog.controller.messages import FeatureRange, RegisterBroker, RegisterBrokerResult
from tidelog.model import Endpoint, Uuid
from tidelog.security.rights import CLUSTER_ACTION
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field, make, nested
from tidelog.wire.values import bytes_of, uuid_of

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


def entity_of(
    node: object, response_type: type, request: Entity, result: RegisterBrokerResult
) -> Entity:
    """The reply."""
    return reply(response_type, broker_epoch=result.broker_epoch)


def request_of(request_type: type, message: RegisterBroker) -> Entity:
    """The wire request."""
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


def result_of(entity: Entity) -> RegisterBrokerResult:
    """The broker epoch."""
    return RegisterBrokerResult(entity.broker_epoch)


API: Final = ControllerApi(
    key=ApiKey.BROKER_REGISTRATION,
    doc=__doc__,
    listeners=CONTROLLERS,
    versions=VersionRange(0, 4),
    sent_version=4,
    requires=CLUSTER_ACTION,
    message=RegisterBroker,
    result=RegisterBrokerResult,
    message_of=message_of,
    entity_of=entity_of,
    refusal_of=refused_at_top(broker_epoch=-1),
    sending=Sending(request_of=request_of, result_of=result_of),
)

"""ControllerRegistration (70), version 0: a controller process introduces itself."""

from typing import Final

from tidelog.broker.api.declaration import CONTROLLERS, ControllerApi, Sending, VersionRange
from tidelog.controller.messages import FeatureRange, RegisterController, RegisterControllerResult
from tidelog.model import Endpoint, Uuid
from tidelog.security.rights import CLUSTER_ACTION
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, make, nested
from tidelog.wire.values import bytes_of, uuid_of

PLAINTEXT: Final = 0


def message_of(request: Entity) -> RegisterController:
    """The controller's message."""
    return RegisterController(
        controller_id=request.controller_id,
        incarnation_id=Uuid(bytes_of(request.incarnation_id)),
        endpoints=tuple(Endpoint(item.name, item.host, item.port) for item in request.listeners),
        features={
            item.name: FeatureRange(item.min_supported_version, item.max_supported_version)
            for item in request.features
        },
    )


def request_of(request_type: type, message: RegisterController) -> Entity:
    """The wire request."""
    listener_type = nested(request_type, "listeners")
    feature_type = nested(request_type, "features")
    return make(
        request_type,
        controller_id=message.controller_id,
        incarnation_id=uuid_of(message.incarnation_id),
        zk_migration_ready=False,
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
    )


def result_of(entity: Entity) -> RegisterControllerResult:
    """The registration is written."""
    return RegisterControllerResult()


API: Final[ControllerApi[object, RegisterController, RegisterControllerResult]] = ControllerApi(
    key=ApiKey.CONTROLLER_REGISTRATION,
    doc=__doc__,
    listeners=CONTROLLERS,
    versions=VersionRange(0, 0),
    sent_version=0,
    requires=CLUSTER_ACTION,
    message=RegisterController,
    result=RegisterControllerResult,
    message_of=message_of,
    sending=Sending(request_of=request_of, result_of=result_of),
)

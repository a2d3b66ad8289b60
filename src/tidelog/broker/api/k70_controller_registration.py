"""ControllerRegistration (70), version 0: a controller process introduces itself."""

from typing import TYPE_CHECKING, Final

from tidelog.broker.api.refusals import refusal
from tidelog.controller.messages import (
    FeatureRange,
    Refused,
    RegisterController,
    RegisterControllerResult,
    Response,
)
from tidelog.errors import ErrorCode
from tidelog.model import Endpoint, Uuid
from tidelog.wire import codec
from tidelog.wire.entities import Entity, make, nested
from tidelog.wire.values import bytes_of, error, error_of, millis, uuid_of

if TYPE_CHECKING:
    from tidelog.broker.context import Broker

VERSION: Final = 0
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


def entity_of(broker: "Broker", version: int, request: Entity, response: Response) -> Entity:
    """The reply."""
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    if not isinstance(response, RegisterControllerResult):
        code, message = refusal(response)
    return make(
        codec.response_class(70, version),
        throttle_time=millis(0),
        error_code=error(code),
        error_message=message,
    )


def request_of(message: RegisterController) -> Entity:
    """The wire request."""
    request_type = codec.request_class(70, VERSION)
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


def response_of(message: RegisterController, entity: Entity) -> Response:
    """The controller's answer."""
    code = error_of(entity.error_code)
    if code is not ErrorCode.NONE:
        return Refused(code, entity.error_message or code.name)
    return RegisterControllerResult()

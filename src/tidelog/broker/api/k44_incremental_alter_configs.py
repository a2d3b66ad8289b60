"""IncrementalAlterConfigs (44), versions 0-1, decided by the active controller."""

from typing import TYPE_CHECKING

from tidelog.broker.api.refusals import refusal
from tidelog.controller.messages import (
    ConfigChange,
    ConfigResourceChange,
    ConfigResourceResult,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsResult,
    Response,
)
from tidelog.wire import codec
from tidelog.wire.entities import Entity, make, nested
from tidelog.wire.values import error, millis

if TYPE_CHECKING:
    from tidelog.broker.context import Broker

API_KEY = 44


def message_of(request: Entity) -> IncrementalAlterConfigs:
    """The controller's message."""
    resources = tuple(
        ConfigResourceChange(
            resource.resource_type,
            resource.resource_name,
            tuple(
                ConfigChange(config.name, config.config_operation, config.value)
                for config in resource.configs
            ),
        )
        for resource in request.resources
    )
    return IncrementalAlterConfigs(resources, request.validate_only)


def entity_of(broker: "Broker", version: int, request: Entity, response: Response) -> Entity:
    """The reply; a refusal of the whole request becomes every resource's error."""
    del broker
    return reply(API_KEY, version, request, response)


def reply(api_key: int, version: int, request: Entity, response: Response) -> Entity:
    """The reply of either API that alters configurations."""
    if isinstance(response, IncrementalAlterConfigsResult):
        results = response.resources
    else:
        code, message = refusal(response)
        results = tuple(
            ConfigResourceResult(resource.resource_type, resource.resource_name, code, message)
            for resource in request.resources
        )
    response_type = codec.response_class(api_key, version)
    item_type = nested(response_type, "responses")
    return make(
        response_type,
        throttle_time=millis(0),
        responses=tuple(
            make(
                item_type,
                error_code=error(result.error_code),
                error_message=result.message,
                resource_type=result.resource_type,
                resource_name=result.resource_name,
            )
            for result in results
        ),
    )

"""IncrementalAlterConfigs (44), versions 0-1, decided by the active controller."""

from typing import Final

from tidelog.broker.api.answers import reply
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller.messages import (
    ConfigChange,
    ConfigResourceChange,
    ConfigResourceResult,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsResult,
    Refused,
)
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, make, nested
from tidelog.wire.values import error

REQUIRES: Final = (on(Operation.ALTER_CONFIGS, ResourceType.TOPIC, ResourceType.CLUSTER),)


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


def entity_of(
    node: object, response_type: type, request: Entity, result: IncrementalAlterConfigsResult
) -> Entity:
    """The reply of either API that alters configurations."""
    item_type = nested(response_type, "responses")
    return reply(
        response_type,
        responses=tuple(
            make(
                item_type,
                error_code=error(resource.error_code),
                error_message=resource.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in result.resources
        ),
    )


def refusal_of(response_type: type, request: Entity, refused: Refused) -> Entity:
    """A refusal of the whole request becomes every resource's error."""
    resources = (
        ConfigResourceResult(
            resource.resource_type, resource.resource_name, refused.error_code, refused.message
        )
        for resource in request.resources
    )
    result = IncrementalAlterConfigsResult(tuple(resources))
    return entity_of(None, response_type, request, result)


API: Final = ControllerApi(
    key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 1),
    requires=REQUIRES,
    message=IncrementalAlterConfigs,
    result=IncrementalAlterConfigsResult,
    message_of=message_of,
    entity_of=entity_of,
    refusal_of=refusal_of,
)

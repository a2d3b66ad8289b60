"""AlterConfigs (33), versions 0-2, decided by the active controller.

The request has all values of a resource, and those that it does not name are deleted. Only old
tools use it: two of them at the same time undo each other's work.
"""

from typing import Final

from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.broker.api.k44_incremental_alter_configs import REQUIRES, entity_of, refusal_of
from tidelog.controller.messages import (
    ConfigChange,
    ConfigOperation,
    ConfigResourceChange,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsResult,
)
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity


def message_of(request: Entity) -> IncrementalAlterConfigs:
    """The controller's message."""
    resources = tuple(
        ConfigResourceChange(
            resource.resource_type,
            resource.resource_name,
            tuple(
                ConfigChange(config.name, int(ConfigOperation.SET), config.value)
                for config in resource.configs
            ),
        )
        for resource in request.resources
    )
    return IncrementalAlterConfigs(resources, request.validate_only, replaces=True)


API: Final = ControllerApi(
    key=ApiKey.ALTER_CONFIGS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 2),
    requires=REQUIRES,
    message=IncrementalAlterConfigs,
    result=IncrementalAlterConfigsResult,
    message_of=message_of,
    entity_of=entity_of,
    refusal_of=refusal_of,
)

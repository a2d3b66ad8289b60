"""AlterConfigs (33), versions 0-2, decided by the active controller.

The request says all the values of a resource; those that it does not name are deleted. It is of
use for little else than old tools: two of them at the same time undo each other's work.
"""

from typing import TYPE_CHECKING

from tidelog.broker.api import k44_incremental_alter_configs
from tidelog.controller.messages import (
    ConfigChange,
    ConfigOperation,
    ConfigResourceChange,
    IncrementalAlterConfigs,
    Response,
)
from tidelog.wire.entities import Entity

if TYPE_CHECKING:
    from tidelog.broker.context import Broker

API_KEY = 33


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


def entity_of(broker: "Broker", version: int, request: Entity, response: Response) -> Entity:
    """The reply, which has the form of IncrementalAlterConfigs'."""
    del broker
    return k44_incremental_alter_configs.reply(API_KEY, version, request, response)

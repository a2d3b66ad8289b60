"""IncrementalAlterConfigs (44), versions 0-1, decided by the active controller."""

from typing import Final

from tidelog.broker.api.answers import answer, refused_each
from tidelog.broker.api.config_rows import config_rights
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller import messages
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.shapes import Rows, Shape

REQUIRES: Final = config_rights(Operation.ALTER_CONFIGS, "responses")

_CHANGE: Final = Shape(messages.ConfigChange, operation="config_operation")
MESSAGE: Final = Shape(
    messages.IncrementalAlterConfigs,
    resources=Shape(messages.ConfigResourceChange, changes=Rows("configs", _CHANGE)),
)
RESULT: Final = answer(messages.IncrementalAlterConfigsResult, resources="responses")
"""The answer of either API that alters configurations."""


def _refused(request: Entity, refused: messages.Refused) -> messages.IncrementalAlterConfigsResult:
    resources = (
        messages.ConfigResourceResult(
            resource.resource_type, resource.resource_name, refused.error_code, refused.message
        )
        for resource in request.resources
    )
    return messages.IncrementalAlterConfigsResult(tuple(resources))


REFUSAL_OF: Final = refused_each(RESULT, _refused)

API: Final = ControllerApi(
    key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 1),
    requires=REQUIRES,
    message=MESSAGE,
    result=RESULT,
    refusal_of=REFUSAL_OF,
)

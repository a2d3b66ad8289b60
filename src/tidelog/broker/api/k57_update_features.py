"""UpdateFeatures (57), versions 0-2, decided by the active controller.

Versions 0 and 1 answer for each feature too; as all are changed or none, every one has the code of
the whole. Version 0 knows no kinds of downgrade: what it allows is a safe one.
"""

from typing import Final

from tidelog.broker.api.answers import reply
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller.messages import (
    FeatureUpdate,
    Refused,
    UpdateFeatures,
    UpdateFeaturesResult,
    UpgradeType,
)
from tidelog.errors import ErrorCode
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field, has_field, make, nested
from tidelog.wire.values import error


def message_of(request: Entity) -> UpdateFeatures:
    """The controller's message."""
    updates = tuple(
        FeatureUpdate(item.feature, int(item.max_version_level), _upgrade_type(item))
        for item in request.feature_updates
    )
    return UpdateFeatures(updates, field(request, "validate_only", False))


def _upgrade_type(item: Entity) -> int:
    if field(item, "allow_downgrade", False):
        return UpgradeType.SAFE_DOWNGRADE
    return int(field(item, "upgrade_type", UpgradeType.UPGRADE))


def entity_of(
    node: object, response_type: type, request: Entity, result: UpdateFeaturesResult
) -> Entity:
    """The reply."""
    return _response(response_type, request, ErrorCode.NONE, None)


def refusal_of(response_type: type, request: Entity, refused: Refused) -> Entity:
    """The reply with the code at the top and, in the versions that have them, for each feature."""
    return _response(response_type, request, refused.error_code, refused.message)


def _response(response_type: type, request: Entity, code: ErrorCode, message: str | None) -> Entity:
    values: dict[str, object] = {}
    if has_field(response_type, "results"):
        result_type = nested(response_type, "results")
        values["results"] = tuple(
            make(result_type, feature=item.feature, error_code=error(code), error_message=message)
            for item in request.feature_updates
        )
    return reply(response_type, error_code=error(code), error_message=message, **values)


API: Final = ControllerApi(
    key=ApiKey.UPDATE_FEATURES,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 2),
    requires=(on(Operation.ALTER, ResourceType.CLUSTER),),
    message=UpdateFeatures,
    result=UpdateFeaturesResult,
    message_of=message_of,
    entity_of=entity_of,
    refusal_of=refusal_of,
)

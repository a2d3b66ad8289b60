"""UpdateFeatures (57), versions 0-2, decided by the active controller.

Versions 0 and 1 answer for each feature too; as all are changed or none, every one has the code of
the whole. Version 0 knows no kinds of downgrade: what it allows is a safe one.
"""

from typing import TYPE_CHECKING

from tidelog.broker.api.refusals import refusal
from tidelog.controller.messages import (
    FeatureUpdate,
    Response,
    UpdateFeatures,
    UpdateFeaturesResult,
    UpgradeType,
)
from tidelog.errors import ErrorCode
from tidelog.wire import codec
from tidelog.wire.entities import Entity, field, has_field, make, nested
from tidelog.wire.values import error, millis

if TYPE_CHECKING:
    from tidelog.broker.context import Broker


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


def entity_of(broker: "Broker", version: int, request: Entity, response: Response) -> Entity:
    """The reply."""
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    if not isinstance(response, UpdateFeaturesResult):
        code, message = refusal(response)
    response_type = codec.response_class(57, version)
    values: dict[str, object] = {}
    if has_field(response_type, "results"):
        result_type = nested(response_type, "results")
        values["results"] = tuple(
            make(result_type, feature=item.feature, error_code=error(code), error_message=message)
            for item in request.feature_updates
        )
    return make(
        response_type,
        throttle_time=millis(0),
        error_code=error(code),
        error_message=message,
        **values,
    )

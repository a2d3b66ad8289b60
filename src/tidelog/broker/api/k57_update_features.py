"""UpdateFeatures (57), versions 0-2, decided by the active controller.

Versions 0 and 1 answer for each feature too, if all of them could be changed; else the one code of
the whole says why none was. Version 0 knows no kinds of downgrade: what it allows is a safe one.
"""

from typing import Final

from tidelog.broker.api.answers import Answer, reply
from tidelog.broker.api.checks import cluster
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller import messages
from tidelog.errors import ErrorCode
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field
from tidelog.wire.shapes import Place, Rows, Shape


def _upgrade_type(item: Entity) -> int:
    if field(item, "allow_downgrade", False):
        return messages.UpgradeType.SAFE_DOWNGRADE
    return int(field(item, "upgrade_type", messages.UpgradeType.UPGRADE))


_UPDATE: Final = Shape(
    messages.FeatureUpdate,
    name="feature",
    level="max_version_level",
    upgrade_type=Place(_upgrade_type),
)
MESSAGE: Final = Shape(
    messages.UpdateFeatures,
    updates=Rows("feature_updates", _UPDATE),
    absent={"validate_only": False},
)


def entity_of(
    node: object, response_type: type, request: Entity, result: messages.UpdateFeaturesResult
) -> Entity:
    """The reply."""
    done = {"error_code": ErrorCode.NONE, "error_message": None}
    results = [{"feature": item.feature, **done} for item in request.feature_updates]
    return reply(response_type, results=results, **done)


def refusal_of(response_type: type, request: Entity, refused: messages.Refused) -> Entity:
    """The reply with the code at the top."""
    code = {"error_code": refused.error_code, "error_message": refused.message}
    return reply(response_type, results=(), **code)


API: Final = ControllerApi(
    key=ApiKey.UPDATE_FEATURES,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 2),
    requires=(cluster(Operation.ALTER),),
    message=MESSAGE,
    result=Answer(Shape(messages.UpdateFeaturesResult), entity_of),
    refusal_of=refusal_of,
)

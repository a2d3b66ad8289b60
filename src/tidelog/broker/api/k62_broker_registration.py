"""BrokerRegistration (62): a broker process introduces itself to the active controller.

Served at versions 0-4, sent at version 4.
"""

from typing import Final

from tidelog.broker.api.answers import answer, refused_at_top
from tidelog.broker.api.checks import CLUSTER_ACTION
from tidelog.broker.api.declaration import CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller.messages import FeatureRange, RegisterBroker, RegisterBrokerResult
from tidelog.model import Endpoint
from tidelog.wire.api import ApiKey
from tidelog.wire.shapes import Place, Rows, Shape

LISTENER: Final = Shape(Endpoint, listener="name")
LISTENERS: Final = Rows("listeners", LISTENER)
_LEVELS: Final = Shape(
    FeatureRange, min_level="min_supported_version", max_level="max_supported_version"
)
FEATURES: Final = Place(
    lambda request: {item.name: _LEVELS.read(item) for item in request.features},
    lambda features: {
        "features": [
            {"name": name, **_LEVELS.write(levels)} for name, levels in sorted(features.items())
        ]
    },
)
"""Where brokers and controllers name their listeners and features."""

MESSAGE: Final = Shape(
    RegisterBroker,
    endpoints=LISTENERS,
    features=FEATURES,
    absent={"log_dirs": ()},
    fixed={"is_migrating_zk_broker": False},
)

API: Final = ControllerApi(
    key=ApiKey.BROKER_REGISTRATION,
    doc=__doc__,
    listeners=CONTROLLERS,
    versions=VersionRange(0, 4),
    sent_version=4,
    requires=CLUSTER_ACTION,
    message=MESSAGE,
    result=answer(RegisterBrokerResult),
    refusal_of=refused_at_top(broker_epoch=-1),
)

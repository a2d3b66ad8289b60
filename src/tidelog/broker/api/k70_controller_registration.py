"""ControllerRegistration (70), version 0: a controller process introduces itself."""

from typing import Final

from tidelog.broker.api.answers import answer
from tidelog.broker.api.checks import CLUSTER_ACTION
from tidelog.broker.api.declaration import CONTROLLERS, ControllerApi, VersionRange
from tidelog.broker.api.k62_broker_registration import FEATURES, LISTENERS
from tidelog.controller.messages import RegisterController, RegisterControllerResult
from tidelog.wire.api import ApiKey
from tidelog.wire.shapes import Shape

MESSAGE: Final = Shape(
    RegisterController, endpoints=LISTENERS, features=FEATURES, fixed={"zk_migration_ready": False}
)

API: Final = ControllerApi(
    key=ApiKey.CONTROLLER_REGISTRATION,
    doc=__doc__,
    listeners=CONTROLLERS,
    versions=VersionRange(0, 0),
    sent_version=0,
    requires=CLUSTER_ACTION,
    message=MESSAGE,
    result=answer(RegisterControllerResult),
)

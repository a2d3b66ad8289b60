"""BrokerHeartbeat (63), versions 0-2 (sent at 1): a broker is alive, and asks to be
unfenced, fenced or shut down.
"""

from typing import Final

from tidelog.broker.api.answers import answer, refused_at_top
from tidelog.broker.api.checks import CLUSTER_ACTION
from tidelog.broker.api.declaration import CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller.messages import BrokerHeartbeat, BrokerHeartbeatResult
from tidelog.wire.api import ApiKey
from tidelog.wire.shapes import Shape

API: Final = ControllerApi(
    key=ApiKey.BROKER_HEARTBEAT,
    doc=__doc__,
    listeners=CONTROLLERS,
    versions=VersionRange(0, 2),
    sent_version=1,
    requires=CLUSTER_ACTION,
    message=Shape(BrokerHeartbeat),
    result=answer(BrokerHeartbeatResult),
    refusal_of=refused_at_top(is_caught_up=False, is_fenced=True, should_shut_down=False),
)

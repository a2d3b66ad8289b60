"""AlterConfigs (33), versions 0-2, decided by the active controller.

The request has all values of a resource, and those that it does not name are deleted. Only old
tools use it: two of them at the same time undo each other's work.
"""

from typing import Final

from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.broker.api.k44_incremental_alter_configs import REFUSAL_OF, REQUIRES, RESULT
from tidelog.controller import messages
from tidelog.wire.api import ApiKey
from tidelog.wire.shapes import Place, Rows, Shape

_SET: Final = Shape(
    messages.ConfigChange, operation=Place(lambda config: int(messages.ConfigOperation.SET))
)
MESSAGE: Final = Shape(
    messages.IncrementalAlterConfigs,
    resources=Shape(messages.ConfigResourceChange, changes=Rows("configs", _SET)),
    replaces=Place(lambda request: True),
)

API: Final = ControllerApi(
    key=ApiKey.ALTER_CONFIGS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 2),
    requires=REQUIRES,
    message=MESSAGE,
    result=RESULT,
    refusal_of=REFUSAL_OF,
)

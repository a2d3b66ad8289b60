"""CreateAcls (30), versions 1-3, decided by the active controller.

Each entry is decided by itself. One with the pattern type ANY or MATCH is INVALID_REQUEST, where
Kafka refuses all entries of the request; so is one whose host is not an address, or whose texts
have control characters, which Kafka takes.
"""

from typing import Final

from tidelog.broker.api.acl_rows import ENTRY, Secured
from tidelog.broker.api.answers import answer, refused_each
from tidelog.broker.api.checks import cluster
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller import acl_messages, messages
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.shapes import Rows, Shape

MESSAGE: Final = Shape(acl_messages.CreateAcls, entries=Rows("creations", ENTRY))
RESULT: Final = answer(acl_messages.CreateAclsResult)


def _refused(request: Entity, refused: messages.Refused) -> acl_messages.CreateAclsResult:
    outcome = acl_messages.AclOutcome(refused.error_code, refused.message)
    return acl_messages.CreateAclsResult((outcome,) * len(request.creations))


API: Final = ControllerApi(
    key=ApiKey.CREATE_ACLS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(1, 3),
    requires=(Secured(), cluster(Operation.ALTER)),
    message=MESSAGE,
    result=RESULT,
    refusal_of=refused_each(RESULT, _refused),
)

"""DeleteAcls (31), versions 1-3, decided by the active controller.

Each filter is decided by itself, and answered with the entries that it found. Two filters may have
found the same entry.
"""

from typing import Final

from tidelog.broker.api.acl_rows import FILTER, FOUND, Secured
from tidelog.broker.api.answers import answer, refused_each
from tidelog.broker.api.checks import cluster
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller import acl_messages, messages
from tidelog.errors import ErrorCode
from tidelog.metadata.acls import AclEntry
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.shapes import Place, Rows, Shape


def _write(found: tuple[AclEntry, ...]) -> dict[str, object]:
    done = {"error_code": ErrorCode.NONE, "error_message": None}
    return {"matching_acls": [{**FOUND.write(entry), **done} for entry in found]}


_FOUND: Final = Place(Rows("matching_acls", FOUND).read, _write)
MESSAGE: Final = Shape(acl_messages.DeleteAcls, filters=Rows("filters", FILTER))
RESULT: Final = answer(
    acl_messages.DeleteAclsResult,
    results=Rows("filter_results", Shape(acl_messages.DeletedAcls, found=_FOUND)),
)


def _refused(request: Entity, refused: messages.Refused) -> acl_messages.DeleteAclsResult:
    result = acl_messages.DeletedAcls(refused.error_code, refused.message)
    return acl_messages.DeleteAclsResult((result,) * len(request.filters))


API: Final = ControllerApi(
    key=ApiKey.DELETE_ACLS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(1, 3),
    requires=(Secured(), cluster(Operation.ALTER)),
    message=MESSAGE,
    result=RESULT,
    refusal_of=refused_each(RESULT, _refused),
)

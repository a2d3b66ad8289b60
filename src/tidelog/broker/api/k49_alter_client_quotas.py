"""AlterClientQuotas (49), versions 0-1, decided by the active controller.

The changes for one user, client id, pair or address are made all or not at all. INVALID_REQUEST are
a type or a quota that is none, an address together with something else, an empty name, a value that
is not above zero or not whole where it has to be, and whatever comes twice. An address is written
as one: Kafka also takes a host name that it can resolve, and the nodes here resolve none. A change
counts at each node that has applied it, also for connections that are open.
"""

from typing import Final

from tidelog.broker.api.answers import answer, refused_each
from tidelog.broker.api.checks import cluster
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller import messages, quota_messages
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.shapes import Shape

_PART: Final = Shape(quota_messages.QuotaPart)
MESSAGE: Final = Shape(
    quota_messages.AlterClientQuotas,
    entries=Shape(quota_messages.AlterQuotas, entity=_PART, ops=Shape(quota_messages.QuotaChange)),
)
RESULT: Final = answer(
    quota_messages.AlterClientQuotasResult, entries=Shape(quota_messages.QuotaOutcome, entity=_PART)
)


def _refused(request: Entity, refused: messages.Refused) -> quota_messages.AlterClientQuotasResult:
    code, message = refused.error_code, refused.message
    entries = MESSAGE.read(request).entries
    return quota_messages.AlterClientQuotasResult(
        tuple(quota_messages.QuotaOutcome(each.entity, code, message) for each in entries)
    )


API: Final = ControllerApi(
    key=ApiKey.ALTER_CLIENT_QUOTAS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 1),
    requires=(cluster(Operation.ALTER_CONFIGS),),
    message=MESSAGE,
    result=RESULT,
    refusal_of=refused_each(RESULT, _refused),
)

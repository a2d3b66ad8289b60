"""ListGroups (16), versions 0-5: the groups that this broker coordinates.

Clients ask every broker. While some of the groups are being loaded, the answer is
COORDINATOR_LOAD_IN_PROGRESS: a list that left them out would look complete. From version 4 on the
list may be limited to states, from version 5 on to types (`classic`, `consumer`); neither
depends on upper and lower case.
"""

from typing import Final

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import Listed
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasGroups
from tidelog.broker.connections import RequestContext
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field


def handle(node: HasGroups, context: RequestContext, request: Entity, now: Instant) -> None:
    """Answers at once."""
    groups = node.groups.list_groups()
    if groups is None:
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        context.answer(reply(context.response_type, error_code=code, groups=()))
        return
    states = {each.lower() for each in field(request, "states_filter", ())}
    types = {each.lower() for each in field(request, "types_filter", ())}
    rows = [
        {
            "group_id": group.group_id,
            "protocol_type": group.protocol_type,
            "group_state": group.state.value,
            "group_type": group.group_type.value,
        }
        for group in sorted(groups, key=lambda each: each.group_id)
        if (not states or group.state.value.lower() in states)
        and (not types or group.group_type.value in types)
    ]
    context.answer(reply(context.response_type, groups=rows))


API: Final = LocalApi(
    key=ApiKey.LIST_GROUPS,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 5),
    requires=(
        Listed(
            rights=on(Operation.DESCRIBE, ResourceType.CLUSTER, ResourceType.GROUP),
            rows="groups",
            name="group_id",
        ),
    ),
    handle=handle,
)

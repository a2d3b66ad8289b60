"""LeaveGroup (13), versions 0-5: members leave a group at once.

The coordinator of the group decides (`groups/membership.py`). Up to version 2 one member leaves,
and its error is that of the answer; from version 3 on each has its own, and an administrator may
name static members by their instance id alone.
"""

from typing import Final

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import group
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasGroups
from tidelog.broker.connections import RequestContext
from tidelog.broker.group_seats import call_for
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.messages import LeaveGroup, LeaveGroupResult, Leaver
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field


def handle(node: HasGroups, context: RequestContext, request: Entity, now: Instant) -> None:
    """Hands the members to the coordinator."""
    members = field(request, "members", None)
    leavers = (
        (Leaver(request.member_id),)
        if members is None
        else tuple(Leaver(each.member_id, each.group_instance_id) for each in members)
    )

    def answer(result: LeaveGroupResult) -> None:
        code = result.error_code
        if members is None and code is ErrorCode.NONE:
            code = result.leavers[0][1]
        rows = [{**leaver._asdict(), "error_code": each} for leaver, each in result.leavers]
        context.answer(reply(context.response_type, error_code=code, members=rows))

    asked = LeaveGroup(request.group_id, leavers)
    node.groups.ask(asked, call_for(LeaveGroupResult, answer), now)


API: Final = LocalApi(
    key=ApiKey.LEAVE_GROUP,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 5),
    requires=(group(Operation.READ),),
    handle=handle,
)

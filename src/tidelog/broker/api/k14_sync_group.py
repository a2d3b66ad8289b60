"""SyncGroup (14), versions 0-5: the assignment of a generation, from its leader to each member.

The coordinator of the group decides (`groups/membership.py`); the answer comes when the leader's
assignment is committed to `__consumer_offsets`. From version 5 on the client names the protocol
that it takes the group for (KIP-559), which is checked; one that does not is refused here.
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
from tidelog.groups.messages import SyncGroup, SyncGroupResult
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field

FIRST_VERSION_WITH_PROTOCOL: Final = 5


def handle(node: HasGroups, context: RequestContext, request: Entity, now: Instant) -> None:
    """Hands the question, and the leader's assignment, to the coordinator."""
    asked = SyncGroup(
        request.group_id,
        request.generation_id,
        request.member_id,
        field(request, "group_instance_id", None),
        field(request, "protocol_type", None),
        field(request, "protocol_name", None),
        tuple((each.member_id, bytes(each.assignment)) for each in request.assignments),
    )

    def answer(result: SyncGroupResult) -> None:
        node.groups.members.note(context.connection, asked, result.error_code)
        context.answer(reply(context.response_type, **result._asdict()))

    names_protocol = asked.protocol_type is not None and asked.protocol_name is not None
    if context.header.api_version >= FIRST_VERSION_WITH_PROTOCOL and not names_protocol:
        answer(SyncGroupResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    else:
        node.groups.ask(asked, call_for(SyncGroupResult, answer), now)


API: Final = LocalApi(
    key=ApiKey.SYNC_GROUP,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 5),
    requires=(group(Operation.READ, renamed={"protocol_type": None, "protocol_name": None}),),
    handle=handle,
)

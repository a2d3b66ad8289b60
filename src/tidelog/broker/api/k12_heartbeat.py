"""Heartbeat (12), versions 0-4: a member of a group is alive.

The coordinator of the group answers at once (`groups/membership.py`). REBALANCE_IN_PROGRESS asks
the member to join again. While a coordinator loads the group, every member counts as alive, as in
Kafka: clients take COORDINATOR_LOAD_IN_PROGRESS here for an error that ends them (aiokafka does).
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
from tidelog.groups.messages import Heartbeat, HeartbeatResult
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field


def handle(node: HasGroups, context: RequestContext, request: Entity, now: Instant) -> None:
    """Hands the sign of life to the coordinator."""
    asked = Heartbeat(
        request.group_id,
        request.generation_id,
        request.member_id,
        field(request, "group_instance_id", None),
    )

    def answer(result: HeartbeatResult) -> None:
        code = result.error_code
        if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            code = ErrorCode.NONE
        node.groups.members.note(context.connection, asked, code)
        context.answer(reply(context.response_type, error_code=code))

    node.groups.ask(asked, call_for(HeartbeatResult, answer), now)


API: Final = LocalApi(
    key=ApiKey.HEARTBEAT,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 4),
    requires=(group(Operation.READ),),
    handle=handle,
)

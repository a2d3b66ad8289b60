"""JoinGroup (11), versions 0-9: to be a member of a group's next generation.

The coordinator of the group decides (`groups/joining.py`); the answer comes when all members have
joined, or at the end of the rebalance timeout. From version 4 on a new member gets its id in an
answer of its own (MEMBER_ID_REQUIRED, KIP-394); from version 5 on members may be static (KIP-345).
"""

from typing import Final

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import group
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasGroups
from tidelog.broker.connections import RequestContext
from tidelog.broker.group_seats import GroupCall
from tidelog.env.instant import Instant
from tidelog.groups.messages import GroupProtocol, JoinGroup, JoinGroupResult, Response
from tidelog.rsm.coordinator import Refused
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field
from tidelog.wire.values import to_millis

FIRST_VERSION_WITH_MEMBER_ID_REQUIRED: Final = 4
FIRST_VERSION_WITH_NULL_PROTOCOL: Final = 7
FIRST_VERSION_WITH_SKIP_ASSIGNMENT: Final = 9


def handle(node: HasGroups, context: RequestContext, request: Entity, now: Instant) -> None:
    """Hands the member to the coordinator."""
    version = context.header.api_version
    session_timeout_ms = to_millis(request.session_timeout)
    rebalance_timeout = field(request, "rebalance_timeout", None)
    rebalance_timeout_ms = session_timeout_ms
    if rebalance_timeout is not None and to_millis(rebalance_timeout) >= 0:
        rebalance_timeout_ms = to_millis(rebalance_timeout)
    asked = JoinGroup(
        request.group_id,
        request.member_id,
        field(request, "group_instance_id", None),
        context.header.client_id or "",
        f"/{context.connection.peer_host}",
        session_timeout_ms,
        rebalance_timeout_ms,
        request.protocol_type,
        tuple(GroupProtocol(each.name, bytes(each.metadata)) for each in request.protocols),
        version >= FIRST_VERSION_WITH_MEMBER_ID_REQUIRED,
        version >= FIRST_VERSION_WITH_SKIP_ASSIGNMENT,
    )

    def answer(response: Response) -> None:
        if isinstance(response, Refused):
            response = JoinGroupResult(response.error_code, request.member_id)
        assert isinstance(response, JoinGroupResult), f"{response}"
        values = response._asdict()
        if version < FIRST_VERSION_WITH_NULL_PROTOCOL:
            values["protocol_name"] = response.protocol_name or ""
        values["members"] = [each._asdict() for each in response.members]
        context.answer(reply(context.response_type, **values))

    node.groups.ask(asked, GroupCall(answer), now)


_DENIED: Final = dict.fromkeys(("member_id", "protocol_type", "protocol_name"))
"""What a denied answer does not repeat."""

API: Final = LocalApi(
    key=ApiKey.JOIN_GROUP,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 9),
    requires=(group(Operation.READ, renamed=_DENIED),),
    handle=handle,
)

"""DescribeGroups (15), versions 0-6: what groups are doing, and who is in them.

The coordinator of each group answers with its state at the moment. Metadata and assignment of the
members are left out unless the group is stable. A group that does not exist is in the state `Dead`;
from version 6 on it is GROUP_ID_NOT_FOUND as well.
"""

from collections.abc import Callable
from typing import Final

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import Each, Operations
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.gathering import Gathering
from tidelog.broker.api.needs import HasGroups
from tidelog.broker.connections import RequestContext
from tidelog.broker.group_seats import GroupCall
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.messages import DescribedMember, DescribeGroup, DescribeGroupResult, Response
from tidelog.rsm.coordinator import Refused
from tidelog.security.rights import NOT_ASKED, Operation, ResourceType, authorized_operations, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field

FIRST_VERSION_WITH_GROUP_NOT_FOUND: Final = 6


def handle(node: HasGroups, context: RequestContext, request: Entity, now: Instant) -> None:
    """Asks the coordinators of all groups."""
    gathering = Gathering[dict[str, object]](
        len(request.groups), lambda rows: context.answer(reply(context.response_type, groups=rows))
    )
    operations = authorized_operations(
        ResourceType.GROUP, asked=field(request, "include_authorized_operations", False)
    )
    for index, group_id in enumerate(request.groups):
        take = gathering.part(index)
        call = GroupCall(_answer(group_id, context.header.api_version, operations, take))
        node.groups.ask(DescribeGroup(group_id), call, now)


def _answer(
    group_id: str, version: int, operations: int, take: Callable[[dict[str, object]], None]
) -> Callable[[Response], None]:
    def answer(response: Response) -> None:
        assert isinstance(response, DescribeGroupResult | Refused), f"{response}"
        code, state = response.error_code, ""
        members: tuple[DescribedMember, ...] = ()
        row: dict[str, object] = {
            "group_id": group_id,
            "error_message": None,
            "protocol_type": "",
            "protocol_data": "",
        }
        if isinstance(response, DescribeGroupResult):
            state, members = response.state.value, response.members
            row["protocol_type"] = response.protocol_type
            row["protocol_data"] = response.protocol_name
            if code is ErrorCode.GROUP_ID_NOT_FOUND:
                row["error_message"] = f"Group {group_id} not found."
                if version < FIRST_VERSION_WITH_GROUP_NOT_FOUND:
                    code = ErrorCode.NONE
        row |= {
            "error_code": code,
            "authorized_operations": operations if code is ErrorCode.NONE else NOT_ASKED,
            "group_state": state,
            "members": [each._asdict() for each in members],
        }
        take(row)

    return answer


API: Final = LocalApi(
    key=ApiKey.DESCRIBE_GROUPS,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 6),
    requires=(
        Each(rights=on(Operation.DESCRIBE, ResourceType.GROUP), rows="groups", blank=0),
        Operations(resource=ResourceType.GROUP, rows="groups", name="group_id"),
    ),
    handle=handle,
)

"""DeleteGroups (42), versions 0-2: forgets groups without members, and how far they have read.

The coordinator of each group decides (`groups/queries.py`): a group with members is
NON_EMPTY_GROUP, one that does not exist GROUP_ID_NOT_FOUND.
"""

from collections.abc import Callable
from typing import Final

from tidelog.broker.api.answers import reply
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.gathering import Gathering
from tidelog.broker.api.needs import HasGroups
from tidelog.broker.connections import RequestContext
from tidelog.broker.group_seats import GroupCall
from tidelog.env.instant import Instant
from tidelog.groups.messages import DeleteGroup, DeleteGroupResult, Response
from tidelog.rsm.coordinator import Refused
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity


def handle(node: HasGroups, context: RequestContext, request: Entity, now: Instant) -> None:
    """Asks the coordinators of all groups."""
    gathering = Gathering[dict[str, object]](
        len(request.groups_names),
        lambda rows: context.answer(reply(context.response_type, results=rows)),
    )
    for index, group_id in enumerate(request.groups_names):
        call = GroupCall(_answer(group_id, gathering.part(index)))
        node.groups.ask(DeleteGroup(group_id), call, now)


def _answer(group_id: str, take: Callable[[dict[str, object]], None]) -> Callable[[Response], None]:
    def answer(response: Response) -> None:
        assert isinstance(response, DeleteGroupResult | Refused), f"{response}"
        take({"group_id": group_id, "error_code": response.error_code})

    return answer


API: Final = LocalApi(
    key=ApiKey.DELETE_GROUPS,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 2),
    requires=(on(Operation.DELETE, ResourceType.GROUP),),
    handle=handle,
)

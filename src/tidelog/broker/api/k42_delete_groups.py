"""DeleteGroups (42), versions 0-2: forgets groups without members, and how far they have read.

The coordinator of each group decides (`groups/queries.py`): a group with members is
NON_EMPTY_GROUP, one that does not exist GROUP_ID_NOT_FOUND. The states of a share group at the
share coordinators are deleted first; when that fails, its error is the answer.
"""

from collections.abc import Callable
from typing import Final, Protocol

from tidelog.broker import share_group_calls
from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import Each
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.gathering import Gathering
from tidelog.broker.api.needs import HasGroups, HasShareStates
from tidelog.broker.connections import RequestContext
from tidelog.broker.group_seats import GroupCall
from tidelog.broker.share_state_calls import Answers
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.messages import DeleteGroup, DeleteGroupResult, Response
from tidelog.rsm.coordinator import Refused
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity

Row = dict[str, object]


class Node(HasGroups, HasShareStates, Protocol):
    """What DeleteGroups needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Asks the coordinators of all groups."""
    gathering = Gathering[dict[str, object]](
        len(request.groups_names),
        lambda rows: context.answer(reply(context.response_type, results=rows)),
    )
    for index, group_id in enumerate(request.groups_names):
        _delete(node, group_id, gathering.part(index), now)


def _delete(node: Node, group_id: str, take: Callable[[Row], None], now: Instant) -> None:
    def finish(code: ErrorCode) -> None:
        take({"group_id": group_id, "error_code": code})

    def answer(response: Response) -> None:
        assert isinstance(response, DeleteGroupResult | Refused), f"{response}"
        if isinstance(response, DeleteGroupResult) and response.wanted is not None:
            share_group_calls.delete(node, response.wanted, on_states_deleted, now)
        else:
            finish(response.error_code)

    def on_states_deleted(answers: Answers, now: Instant) -> None:
        codes = {each.error_code for each in answers.values()} - {ErrorCode.NONE}
        if codes:
            finish(min(codes))
        else:
            request = DeleteGroup(group_id, are_states_deleted=True)
            node.groups.ask(request, GroupCall(answer), now)

    node.groups.ask(DeleteGroup(group_id), GroupCall(answer), now)


API: Final = LocalApi(
    key=ApiKey.DELETE_GROUPS,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 2),
    requires=(
        Each(
            rights=on(Operation.DELETE, ResourceType.GROUP), rows="groups_names", answer="results"
        ),
    ),
    handle=handle,
)

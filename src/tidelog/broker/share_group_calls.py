"""Requests to group coordinators that also need share coordinators (KIP-932).

A group coordinator writes down what it is going to ask of share coordinators, and says it in its
answer; it does not ask by itself. What share coordinators answer comes back to it as a request.
"""

from collections.abc import Callable
from typing import Protocol

from tidelog.broker.group_seats import GroupCall, GroupSeats
from tidelog.broker.share_state_calls import Answers, ShareStateCalls
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.messages import Response, ShareOffsetsResult, StatesInitialized, WantedStates
from tidelog.rsm.coordinator import Refused
from tidelog.wire.api import ApiKey


class Node(Protocol):
    """What such a request needs."""

    groups: GroupSeats
    share_states: ShareStateCalls


def decided(
    refuse: Callable[[ErrorCode, str | None], None], go_on: Callable[[WantedStates], None]
) -> GroupCall:
    """The call of a request about a group's offsets. The coordinator of the group refuses it, or
    says what share coordinators must be asked."""

    def answer(response: Response) -> None:
        if isinstance(response, Refused):
            refuse(response.error_code, None)
            return
        assert isinstance(response, ShareOffsetsResult), f"{response}"
        if response.wanted is None:
            refuse(response.error_code, response.error_message)
        else:
            go_on(response.wanted)

    return GroupCall(answer)


def initialize(
    node: Node,
    wanted: WantedStates,
    now: Instant,
    on_done: Callable[[Answers, Instant], None] = lambda _answers, _now: None,
) -> None:
    """Has states begin, and the group coordinator note what became of it; `on_done` is called
    then."""

    def note(answers: Answers, now: Instant) -> None:
        is_done = all(each.error_code is ErrorCode.NONE for each in answers.values())
        noted = StatesInitialized(wanted.group_id, tuple(answers), is_done)
        call = GroupCall(lambda _: on_done(answers, now))
        node.groups.ask(noted, call, now)

    fields = {
        each: {"state_epoch": wanted.state_epoch, "start_offset": start_offset}
        for each, start_offset in wanted.partitions
    }
    key = ApiKey.INITIALIZE_SHARE_GROUP_STATE
    node.share_states.ask(key, wanted.group_id, fields, note, now)


def delete(
    node: Node, wanted: WantedStates, on_done: Callable[[Answers, Instant], None], now: Instant
) -> None:
    """Has states end."""
    fields = {each: dict[str, int]() for each, _ in wanted.partitions}
    node.share_states.ask(ApiKey.DELETE_SHARE_GROUP_STATE, wanted.group_id, fields, on_done, now)

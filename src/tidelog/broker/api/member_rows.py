"""What the answers about members of consumer groups and of share groups have in common."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import Asked, Check, Each, Every, Operations, group
from tidelog.broker.api.gathering import Gathering
from tidelog.broker.api.mirroring import SENTENCE
from tidelog.broker.api.needs import HasGroups
from tidelog.broker.connections import RequestContext
from tidelog.broker.group_seats import GroupCall
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.consumer_records import IdPartition
from tidelog.groups.messages import (
    ConsumerGroupHeartbeatResult,
    Request,
    Response,
    ShareGroupHeartbeatResult,
)
from tidelog.model import TopicId
from tidelog.rsm.coordinator import Refused
from tidelog.security.rights import Operation, ResourceType, authorized_operations, on
from tidelog.wire.entities import Entity
from tidelog.wire.values import error, millis

Row = dict[str, object]


class Node(HasGroups, Protocol):
    """What describing groups needs."""


class _HiddenMembers(Check):
    """Members are shown to those who may describe all topics that are assigned to any of them."""

    rights = on(Operation.DESCRIBE, ResourceType.TOPIC, condition="assigned topics")

    def apply(self, asked: Asked) -> None:
        """Hides the members."""
        asked.amendments.append(self._hidden)

    def _hidden(self, asked: Asked, answer: Entity) -> Entity:
        groups = [
            group
            if all(asked.access.meets(self.rights, name) for name in _assigned(group))
            else replace(
                group,
                error_code=error(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
                error_message=SENTENCE,
                members=(),
            )
            for group in answer.groups
        ]
        return replace(answer, groups=tuple(groups))


def _assigned(group: Entity) -> dict[str, None]:
    """The names of all topics that a member has or shall have."""
    return {
        topic.topic_name: None
        for member in group.members
        for name in ("assignment", "target_assignment")
        if hasattr(member, name)
        for topic in getattr(member, name).topic_partitions
    }


_NO_MEMBER: Final = {"member_id": None}

BEATS: Final[tuple[Check, ...]] = (
    group(Operation.READ, blank=0, renamed=_NO_MEMBER),
    Every(
        rights=on(Operation.DESCRIBE, ResourceType.TOPIC),
        names="subscribed_topic_names",
        blank=0,
        renamed=_NO_MEMBER,
    ),
)
"""What is asked before a heartbeat of a member."""
DESCRIBES_GROUPS: Final[tuple[Check, ...]] = (
    Each(
        rights=on(Operation.DESCRIBE, ResourceType.GROUP),
        rows="group_ids",
        answer="groups",
        blank=0,
    ),
    _HiddenMembers(),
    Operations(resource=ResourceType.GROUP, rows="groups", name="group_id"),
)
"""What is asked before groups and their members are described."""


def describe_groups(
    node: Node,
    context: RequestContext,
    request: Entity,
    now: Instant,
    *,
    is_on: bool,
    question: Callable[[str], Request],
    answer_of: Callable[[str, int, Callable[[Row], None]], Callable[[Response], None]],
) -> None:
    """Asks the coordinators of all groups, and answers when all have. `is_on` says whether the
    cluster has such groups at all. `answer_of` takes a group, the operations that are shown, and
    what to call with its row."""
    gathering = Gathering[Row](
        len(request.group_ids),
        lambda rows: context.answer(reply(context.response_type, groups=rows)),
    )
    operations = authorized_operations(
        ResourceType.GROUP, asked=request.include_authorized_operations
    )
    for index, group_id in enumerate(request.group_ids):
        answer = answer_of(group_id, operations, gathering.part(index))
        if is_on:
            node.groups.ask(question(group_id), GroupCall(answer), now)
        else:
            answer(Refused(ErrorCode.UNSUPPORTED_VERSION))


def heartbeat_reply(
    response_type: type, result: ConsumerGroupHeartbeatResult | ShareGroupHeartbeatResult
) -> Entity:
    """The answer to a heartbeat; without an assignment while the member knows its own."""
    assigned = result.assigned
    return reply(
        response_type,
        error_code=result.error_code,
        error_message=result.error_message,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval=millis(result.heartbeat_interval_ms),
        assignment=None if assigned is None else {"topic_partitions": rows_of(assigned)},
    )


def rows_of(partitions: tuple[IdPartition, ...]) -> list[dict[str, object]]:
    """Partitions by topic."""
    topics: dict[TopicId, list[int]] = {}
    for topic_id, number in partitions:
        topics.setdefault(topic_id, []).append(number)
    return [{"topic_id": each, "partitions": numbers} for each, numbers in topics.items()]

"""What the answers about members of consumer groups and of share groups have in common."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, Protocol, TypeVar

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import Asked, Check, Each, Every, Operations, group
from tidelog.broker.api.gathering import Gathering
from tidelog.broker.api.mirroring import mirrored
from tidelog.broker.api.needs import HasGroups
from tidelog.broker.connections import RequestContext
from tidelog.broker.group_seats import call_for
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.consumer_records import IdPartition
from tidelog.groups.messages import (
    ConsumerGroupHeartbeatResult,
    DescribeConsumerGroupResult,
    DescribeShareGroupResult,
    Request,
    ShareGroupHeartbeatResult,
)
from tidelog.metadata.image import MetadataImage
from tidelog.model import TopicId
from tidelog.rsm.coordinator import Refused
from tidelog.security.rights import NOT_ASKED, Operation, ResourceType, authorized_operations, on
from tidelog.wire.entities import Entity, nested
from tidelog.wire.values import millis

Row = dict[str, object]
DescribedT = TypeVar("DescribedT", DescribeConsumerGroupResult, DescribeShareGroupResult)


class Node(HasGroups, Protocol):
    """What describing groups needs."""


class _HiddenMembers(Check):
    """A group is shown to those who may describe all topics that are assigned to its members."""

    rights = on(Operation.DESCRIBE, ResourceType.TOPIC, condition="assigned topics")

    def apply(self, asked: Asked) -> None:
        """Hides all but the name of the group."""
        asked.amendments.append(self._hidden)

    def _hidden(self, asked: Asked, answer: Entity) -> Entity:
        row_type, code = nested(asked.response_type, "groups"), ErrorCode.TOPIC_AUTHORIZATION_FAILED
        groups = [
            group
            if all(asked.access.meets(self.rights, name) for name in _assigned(group))
            else mirrored(row_type, group.group_id, code, blank=0)
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
    result_type: Callable[[ErrorCode], DescribedT],
    more_of: Callable[[DescribedT], Row],
) -> None:
    """Asks the coordinators of all groups, and answers when all have. `is_on` says whether the
    cluster has such groups at all. `more_of` makes of a result with a group what the kinds of
    groups do not have in common."""
    gathering = Gathering[Row](
        len(request.group_ids),
        lambda rows: context.answer(reply(context.response_type, groups=rows)),
    )
    operations = authorized_operations(
        ResourceType.GROUP, asked=request.include_authorized_operations
    )
    for index, group_id in enumerate(request.group_ids):
        call = call_for(
            result_type, _row_taker(group_id, operations, more_of, gathering.part(index))
        )
        if is_on:
            node.groups.ask(question(group_id), call, now)
        else:
            call.settle(Refused(ErrorCode.UNSUPPORTED_VERSION))


def _row_taker(
    group_id: str,
    operations: int,
    more_of: Callable[[DescribedT], Row],
    take: Callable[[Row], None],
) -> Callable[[DescribedT], None]:
    def on_result(result: DescribedT) -> None:
        code, group = result.error_code, result.group
        row: Row = {
            "group_id": group_id,
            "error_code": code,
            "error_message": result.error_message,
            "group_state": "",
            "group_epoch": 0,
            "assignment_epoch": 0,
            "assignor_name": "",
            "members": [],
            "authorized_operations": operations if code is ErrorCode.NONE else NOT_ASKED,
        }
        if group is not None:
            row["group_state"] = group.state.value
            row["group_epoch"] = group.group_epoch
            row["assignment_epoch"] = group.assignment_epoch
            row |= more_of(result)
        take(row)

    return on_result


def named_rows(partitions: Iterable[IdPartition], image: MetadataImage) -> list[Row]:
    """Partitions by topic, with its name; without those of deleted topics."""
    known = tuple(each for each in partitions if each.topic_id in image.topics_by_id)
    names = {each.topic_id: image.topics_by_id[each.topic_id].name for each in known}
    return [{**row, "topic_name": names[row["topic_id"]]} for row in rows_of(known)]  # type: ignore[index]


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

"""What the answers about members of consumer groups and of share groups have in common."""

from collections.abc import Callable
from typing import Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.gathering import Gathering
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
from tidelog.security.rights import ResourceType, authorized_operations
from tidelog.wire.entities import Entity
from tidelog.wire.values import millis

Row = dict[str, object]


class Node(HasGroups, Protocol):
    """What describing groups needs."""


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

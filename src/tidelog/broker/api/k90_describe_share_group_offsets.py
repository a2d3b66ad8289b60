"""DescribeShareGroupOffsets (90), versions 0-1: how far share groups have come (KIP-932).

Sent to the coordinator of the groups, which asks the share coordinators. Without topics it is about
all partitions that the group knows. Where there is no offset, or the share coordinator refuses, the
offset is -1, as in Kafka.

Version 1 has the lag (KIP-1226): the records from the offset to the end of the partition, which its
leader is asked for, without those behind the offset whose delivery is complete. It is -1 where
there is no offset, or where that number is not known.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import Each, Inside, topics
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.gathering import Gathering
from tidelog.broker.api.needs import HasGroups, HasImage, HasShareStates
from tidelog.broker.connections import RequestContext
from tidelog.broker.features import has_share_groups
from tidelog.broker.group_seats import GroupCall
from tidelog.broker.share_state_calls import Answers, StateAnswer
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.consumer_records import IdPartition
from tidelog.groups.messages import DescribeShareGroup, DescribeShareGroupResult, Response
from tidelog.model import NO_OFFSET, ZERO_TOPIC_ID
from tidelog.rsm.coordinator import Refused
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.shares.records import NO_COUNT
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity

Row = dict[str, object]


class Node(HasGroups, HasImage, HasShareStates, Protocol):
    """What DescribeShareGroupOffsets needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Asks about all groups."""
    gathering = Gathering[Row](
        len(request.groups), lambda rows: context.answer(reply(context.response_type, groups=rows))
    )
    is_on = has_share_groups(node.image.features)
    for index, group in enumerate(request.groups):
        take = gathering.part(index)
        if not is_on:
            take(_group_row(group.group_id, [], ErrorCode.UNSUPPORTED_VERSION))
        elif group.topics is None:
            _describe_all(node, group.group_id, take, now)
        else:
            _describe(node, group, take, now)


def _describe_all(node: Node, group_id: str, take: Callable[[Row], None], now: Instant) -> None:
    def answer(response: Response) -> None:
        if isinstance(response, Refused):
            take(_group_row(group_id, [], response.error_code))
            return
        assert isinstance(response, DescribeShareGroupResult), f"{response}"
        states = {} if response.group is None else response.group.assignable()
        partitions = [
            IdPartition(topic_id, number)
            for topic_id, numbers in states.items()
            if topic_id in node.image.topics_by_id
            for number in sorted(numbers)
        ]
        _ask(node, group_id, partitions, [], take, now)

    node.groups.ask(DescribeShareGroup(group_id), GroupCall(answer), now)


def _describe(node: Node, group: Entity, take: Callable[[Row], None], now: Instant) -> None:
    partitions, unknown = [], []
    for topic in group.topics:
        known = node.image.topics_by_name.get(topic.topic_name)
        if known is None:
            rows = [_row(number) for number in topic.partitions]
            unknown.append(_topic_row(topic.topic_name, ZERO_TOPIC_ID, rows))
        else:
            partitions += [IdPartition(known.topic_id, number) for number in topic.partitions]
    _ask(node, group.group_id, partitions, unknown, take, now)


def _ask(
    node: Node,
    group_id: str,
    partitions: Iterable[IdPartition],
    unknown: list[Row],
    take: Callable[[Row], None],
    now: Instant,
) -> None:
    names = {each.topic_id: node.image.topics_by_id[each.topic_id].name for each in partitions}

    def measure(answers: Answers, now: Instant) -> None:
        states = {
            each: None if code is not ErrorCode.NONE else found
            for each, (code, found) in answers.items()
        }
        counted = [each for each, found in states.items() if _has_lag(found)]
        node.share_states.ask_ends(counted, lambda ends, _: finish(states, ends), now)

    def finish(states: Mapping[IdPartition, Entity], ends: Answers) -> None:
        topics: dict[bytes, list[Row]] = {}
        for each in partitions:
            row = _row(each.partition, states[each], ends.get(each))
            topics.setdefault(each.topic_id, []).append(row)
        rows = [_topic_row(names[it], it, found) for it, found in topics.items()]  # type: ignore[index]
        take(_group_row(group_id, rows + unknown))

    fields = {each: {"leader_epoch": -1} for each in partitions}
    key = ApiKey.READ_SHARE_GROUP_STATE_SUMMARY
    node.share_states.ask(key, group_id, fields, measure, now)


def _has_lag(found: Entity) -> bool:
    return (
        found is not None
        and found.start_offset != NO_OFFSET
        and found.delivery_complete_count != NO_COUNT
    )


def _row(number: int, found: Entity = None, end: StateAnswer | None = None) -> Row:
    code, lag = ErrorCode.NONE, -1
    if end is not None and end.error_code is not ErrorCode.NONE:
        code, found = end.error_code, None
    elif end is not None:
        lag = end.row.offset - found.start_offset - found.delivery_complete_count
    return {
        "partition_index": number,
        "start_offset": NO_OFFSET if found is None else found.start_offset,
        "leader_epoch": 0 if found is None else found.leader_epoch,
        "lag": lag,
        "error_code": code,
        "error_message": None,
    }


def _topic_row(name: str, topic_id: bytes, rows: list[Row]) -> Row:
    return {"topic_name": name, "topic_id": topic_id, "partitions": rows}


def _group_row(group_id: str, topics: list[Row], code: ErrorCode = ErrorCode.NONE) -> Row:
    return {"group_id": group_id, "topics": topics, "error_code": code, "error_message": None}


_SHOWN: Final = topics(Operation.DESCRIBE, name="topic_name", renamed={"leader_epoch": 0})

API: Final = LocalApi(
    key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 1),
    requires=(
        Each(
            rights=on(Operation.DESCRIBE, ResourceType.GROUP),
            rows="groups",
            name="group_id",
            blank=0,
        ),
        Inside(outer="groups", key="group_id", inner=_SHOWN),
    ),
    handle=handle,
)

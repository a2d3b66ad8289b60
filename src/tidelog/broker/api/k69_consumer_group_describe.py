"""ConsumerGroupDescribe (69), versions 0-1: the members of consumer groups (KIP-848).

Of each member: what it is subscribed to, what it has (that which it has to give back included), and
what it shall have. The coordinator of each group answers with what is committed. A group that does
not exist, or is a classic one, is GROUP_ID_NOT_FOUND; clients then ask DescribeGroups. Partitions
of deleted topics are left out.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol

from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.member_rows import DESCRIBES_GROUPS, describe_groups, rows_of
from tidelog.broker.api.needs import HasGroups, HasImage
from tidelog.broker.connections import RequestContext
from tidelog.broker.features import has_consumer_groups
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.consumer_group import ConsumerGroup
from tidelog.groups.consumer_records import IdPartition
from tidelog.groups.messages import DescribeConsumerGroup, DescribeConsumerGroupResult, Response
from tidelog.metadata.image import MetadataImage
from tidelog.rsm.coordinator import Refused
from tidelog.security.rights import NOT_ASKED
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


class Node(HasGroups, HasImage, Protocol):
    """What ConsumerGroupDescribe needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Asks the coordinators of all groups."""
    describe_groups(
        node,
        context,
        request,
        now,
        is_on=has_consumer_groups(node.image.features),
        question=DescribeConsumerGroup,
        answer_of=partial(_answer, node.image),
    )


def _answer(
    image: MetadataImage, group_id: str, operations: int, take: Callable[[dict[str, object]], None]
) -> Callable[[Response], None]:
    def answer(response: Response) -> None:
        assert isinstance(response, DescribeConsumerGroupResult | Refused), f"{response}"
        code = response.error_code
        row: dict[str, object] = {
            "group_id": group_id,
            "error_code": code,
            "error_message": None,
            "group_state": "",
            "group_epoch": 0,
            "assignment_epoch": 0,
            "assignor_name": "",
            "members": [],
            "authorized_operations": operations if code is ErrorCode.NONE else NOT_ASKED,
        }
        if isinstance(response, DescribeConsumerGroupResult):
            row["error_message"] = response.error_message
        if isinstance(response, DescribeConsumerGroupResult) and response.group is not None:
            group = response.group
            row |= {
                "group_state": group.state.value,
                "group_epoch": group.group_epoch,
                "assignment_epoch": group.assignment_epoch,
                "assignor_name": response.assignor,
                "members": [_member_row(group, each, image) for each in group.subscriptions],
            }
        take(row)

    return answer


def _member_row(group: ConsumerGroup, member_id: str, image: MetadataImage) -> dict[str, object]:
    member, current = group.subscriptions[member_id], group.current(member_id)
    return {
        "member_id": member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": current.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": member.topic_names,
        "subscribed_topic_regex": member.regex or "",
        "assignment": {"topic_partitions": named((*current.assigned, *current.revoking), image)},
        "target_assignment": {"topic_partitions": named(group.target(member_id), image)},
        "member_type": _CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    }


def named(partitions: Iterable[IdPartition], image: MetadataImage) -> list[dict[str, object]]:
    """Partitions by topic, with its name; without those of deleted topics."""
    known = tuple(each for each in partitions if each.topic_id in image.topics_by_id)
    names = {each.topic_id: image.topics_by_id[each.topic_id].name for each in known}
    return [{**row, "topic_name": names[row["topic_id"]]} for row in rows_of(known)]  # type: ignore[index]


API: Final = LocalApi(
    key=ApiKey.CONSUMER_GROUP_DESCRIBE,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 1),
    requires=DESCRIBES_GROUPS,
    handle=handle,
)

"""ShareGroupDescribe (77), version 1: the members of share groups (KIP-932).

Of each member: what it is subscribed to, and what it has. The coordinator of each group answers
with what is committed. A group that does not exist, or is of another type, is GROUP_ID_NOT_FOUND.
Partitions of deleted topics are left out.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.k69_consumer_group_describe import named
from tidelog.broker.api.member_rows import DESCRIBES_GROUPS, describe_groups
from tidelog.broker.api.needs import HasGroups, HasImage
from tidelog.broker.connections import RequestContext
from tidelog.broker.features import has_share_groups
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.messages import DescribeShareGroup, DescribeShareGroupResult, Response
from tidelog.groups.share_group import ShareGroup
from tidelog.groups.share_heartbeats import ASSIGNOR
from tidelog.metadata.image import MetadataImage
from tidelog.rsm.coordinator import Refused
from tidelog.security.rights import NOT_ASKED
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity

Row = dict[str, object]


class Node(HasGroups, HasImage, Protocol):
    """What ShareGroupDescribe needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Asks the coordinators of all groups."""
    describe_groups(
        node,
        context,
        request,
        now,
        is_on=has_share_groups(node.image.features),
        question=DescribeShareGroup,
        answer_of=partial(_answer, node.image),
    )


def _answer(
    image: MetadataImage, group_id: str, operations: int, take: Callable[[Row], None]
) -> Callable[[Response], None]:
    def answer(response: Response) -> None:
        if isinstance(response, Refused):
            response = DescribeShareGroupResult(response.error_code)
        assert isinstance(response, DescribeShareGroupResult), f"{response}"
        code, group, text = response
        known = group or ShareGroup()
        take(
            {
                "group_id": group_id,
                "error_code": code,
                "error_message": text,
                "group_state": "" if group is None else group.state.value,
                "group_epoch": 0 if group is None else group.group_epoch,
                "assignment_epoch": 0 if group is None else group.assignment_epoch,
                "assignor_name": "" if group is None else ASSIGNOR,
                "members": [_member_row(known, each, image) for each in known.members],
                "authorized_operations": operations if code is ErrorCode.NONE else NOT_ASKED,
            }
        )

    return answer


def _member_row(group: ShareGroup, member_id: str, image: MetadataImage) -> Row:
    member, current = group.members[member_id], group.current(member_id)
    return {
        "member_id": member_id,
        "rack_id": member.rack_id,
        "member_epoch": current.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": member.topic_names,
        "assignment": {"topic_partitions": named(current.assigned, image)},
    }


API: Final = LocalApi(
    key=ApiKey.SHARE_GROUP_DESCRIBE,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(1, 1),
    requires=DESCRIBES_GROUPS,
    handle=handle,
)

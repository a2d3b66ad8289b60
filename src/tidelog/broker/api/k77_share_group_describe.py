"""ShareGroupDescribe (77), version 1: the members of share groups (KIP-932).

Of each member: what it is subscribed to, and what it has. The coordinator of each group answers
with what is committed. A group that does not exist, or is of another type, is GROUP_ID_NOT_FOUND.
Partitions of deleted topics are left out.
"""

from typing import Final, Protocol

from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.member_rows import DESCRIBES_GROUPS, Row, describe_groups, named_rows
from tidelog.broker.api.needs import HasGroups, HasImage
from tidelog.broker.connections import RequestContext
from tidelog.broker.features import has_share_groups
from tidelog.env.instant import Instant
from tidelog.groups.messages import DescribeShareGroup, DescribeShareGroupResult
from tidelog.groups.share_group import ShareGroup
from tidelog.groups.share_heartbeats import ASSIGNOR
from tidelog.metadata.image import MetadataImage
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity


class Node(HasGroups, HasImage, Protocol):
    """What ShareGroupDescribe needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Asks the coordinators of all groups."""
    image = node.image

    def more(result: DescribeShareGroupResult) -> Row:
        group = result.group
        assert group is not None, "a group that is not there has no members"
        members = [_member_row(group, each, image) for each in group.members]
        return {"assignor_name": ASSIGNOR, "members": members}

    describe_groups(
        node,
        context,
        request,
        now,
        is_on=has_share_groups(image.features),
        question=DescribeShareGroup,
        result_type=DescribeShareGroupResult,
        more_of=more,
    )


def _member_row(group: ShareGroup, member_id: str, image: MetadataImage) -> Row:
    member, current = group.members[member_id], group.current(member_id)
    return {
        "member_id": member_id,
        "rack_id": member.rack_id,
        "member_epoch": current.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": member.topic_names,
        "assignment": {"topic_partitions": named_rows(current.assigned, image)},
    }


API: Final = LocalApi(
    key=ApiKey.SHARE_GROUP_DESCRIBE,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(1, 1),
    requires=DESCRIBES_GROUPS,
    handle=handle,
)

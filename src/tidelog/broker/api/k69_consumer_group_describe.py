"""ConsumerGroupDescribe (69), versions 0-1: the members of consumer groups (KIP-848).

Of each member: what it is subscribed to, what it has (that which it has to give back included), and
what it shall have. The coordinator of each group answers with what is committed. A group that does
not exist, or is a classic one, is GROUP_ID_NOT_FOUND; clients then ask DescribeGroups. Partitions
of deleted topics are left out.
"""

from typing import Final, Protocol

from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.member_rows import DESCRIBES_GROUPS, Row, describe_groups, named_rows
from tidelog.broker.api.needs import HasGroups, HasImage
from tidelog.broker.connections import RequestContext
from tidelog.broker.features import has_consumer_groups
from tidelog.env.instant import Instant
from tidelog.groups.consumer_group import ConsumerGroup
from tidelog.groups.messages import DescribeConsumerGroup, DescribeConsumerGroupResult
from tidelog.metadata.image import MetadataImage
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


class Node(HasGroups, HasImage, Protocol):
    """What ConsumerGroupDescribe needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Asks the coordinators of all groups."""
    image = node.image

    def more(result: DescribeConsumerGroupResult) -> Row:
        group = result.group
        assert group is not None, "a group that is not there has no members"
        members = [_member_row(group, each, image) for each in group.subscriptions]
        return {"assignor_name": result.assignor, "members": members}

    describe_groups(
        node,
        context,
        request,
        now,
        is_on=has_consumer_groups(image.features),
        question=DescribeConsumerGroup,
        result_type=DescribeConsumerGroupResult,
        more_of=more,
    )


def _member_row(group: ConsumerGroup, member_id: str, image: MetadataImage) -> Row:
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
        "assignment": {
            "topic_partitions": named_rows((*current.assigned, *current.revoking), image)
        },
        "target_assignment": {"topic_partitions": named_rows(group.target(member_id), image)},
        "member_type": _CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    }


API: Final = LocalApi(
    key=ApiKey.CONSUMER_GROUP_DESCRIBE,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 1),
    requires=DESCRIBES_GROUPS,
    handle=handle,
)

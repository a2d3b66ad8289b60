"""ConsumerGroupHeartbeat (68), versions 0-1: a member of a consumer group (KIP-848).

One request joins, stays, changes and leaves. The coordinator of the group decides
(`groups/consumer_heartbeats.py`) and answers when what changes is committed. From version 1 on
clients make their member ids themselves, and may subscribe by a regular expression, which matches
no topic that the member may not describe.

It is served while the cluster's `group.version` is 1; before, it is UNSUPPORTED_VERSION.
"""

from typing import Final, Protocol

from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.member_rows import BEATS, heartbeat_reply
from tidelog.broker.api.needs import HasGroups, HasImage
from tidelog.broker.connections import RequestContext
from tidelog.broker.features import has_consumer_groups
from tidelog.broker.group_seats import call_for
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.consumer_records import IdPartition
from tidelog.groups.messages import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResult
from tidelog.model import TopicId
from tidelog.security.rights import Operation, ResourceType
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field
from tidelog.wire.values import bytes_of, to_millis

FIRST_VERSION_WITH_OWN_MEMBER_ID: Final = 1


class Node(HasGroups, HasImage, Protocol):
    """What ConsumerGroupHeartbeat needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Hands the sign of life to the coordinator."""
    access = context.access

    def may_describe(topic: str) -> bool:
        return access.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic, audits=False)

    rebalance_timeout_ms = to_millis(request.rebalance_timeout)
    names = request.subscribed_topic_names
    asked = ConsumerGroupHeartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        context.header.client_id or "",
        f"/{context.connection.peer_host}",
        request.instance_id,
        request.rack_id,
        rebalance_timeout_ms,
        None if names is None else tuple(names),
        field(request, "subscribed_topic_regex", None),
        request.server_assignor,
        _held(request.topic_partitions),
        context.header.api_version >= FIRST_VERSION_WITH_OWN_MEMBER_ID,
        may_describe,
    )

    def answer(result: ConsumerGroupHeartbeatResult) -> None:
        node.groups.members.note(context.connection, asked, result.error_code)
        context.answer(heartbeat_reply(context.response_type, result))

    if has_consumer_groups(node.image.features):
        node.groups.ask(asked, call_for(ConsumerGroupHeartbeatResult, answer), now)
    else:
        answer(ConsumerGroupHeartbeatResult(ErrorCode.UNSUPPORTED_VERSION))


def _held(topics: tuple[Entity, ...] | None) -> tuple[IdPartition, ...] | None:
    if topics is None:
        return None
    return tuple(
        IdPartition(TopicId(bytes_of(topic.topic_id)), number)
        for topic in topics
        for number in topic.partitions
    )


API: Final = LocalApi(
    key=ApiKey.CONSUMER_GROUP_HEARTBEAT,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 1),
    requires=BEATS,
    handle=handle,
)

"""ShareGroupHeartbeat (76), version 1: a member of a share group (KIP-932).

One request joins, stays, changes and leaves. The coordinator of the group decides
(`groups/share_heartbeats.py`) and answers when what changes is committed; then the states of new
share partitions are initialised, and a later heartbeat brings the partitions.

It is served while the cluster's `share.version` is 1; before, it is UNSUPPORTED_VERSION.
"""

from typing import Final, Protocol

from tidelog.broker import share_group_calls
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.member_rows import BEATS, heartbeat_reply
from tidelog.broker.api.needs import HasGroups, HasImage, HasShareStates
from tidelog.broker.connections import RequestContext
from tidelog.broker.features import has_share_groups
from tidelog.broker.group_seats import call_for
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.messages import ShareGroupHeartbeat, ShareGroupHeartbeatResult
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity


class Node(HasGroups, HasImage, HasShareStates, Protocol):
    """What ShareGroupHeartbeat needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Hands the sign of life to the coordinator."""
    names = request.subscribed_topic_names
    asked = ShareGroupHeartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        context.header.client_id or "",
        f"/{context.connection.peer_host}",
        request.rack_id,
        None if names is None else tuple(names),
    )

    def answer(result: ShareGroupHeartbeatResult) -> None:
        node.groups.members.note(context.connection, asked, result.error_code)
        context.answer(heartbeat_reply(context.response_type, result))
        if result.wanted is not None:
            share_group_calls.initialize(node, result.wanted, now)

    if has_share_groups(node.image.features):
        node.groups.ask(asked, call_for(ShareGroupHeartbeatResult, answer), now)
    else:
        answer(ShareGroupHeartbeatResult(ErrorCode.UNSUPPORTED_VERSION))


API: Final = LocalApi(
    key=ApiKey.SHARE_GROUP_HEARTBEAT,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(1, 1),
    requires=BEATS,
    handle=handle,
)

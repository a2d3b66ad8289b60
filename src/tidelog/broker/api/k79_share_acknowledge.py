"""ShareAcknowledge (79), versions 1-2: a member of a share group says what became of its records.

The answer comes when the share coordinator has written it (`broker/held_shares.py`). A partition of
which this node knows no acquired records is UNKNOWN_TOPIC_OR_PARTITION. The session's last epoch
ends the session, and releases what the member still has.

Served where `share.version` is 1; UNSUPPORTED_VERSION otherwise.
"""

from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import group, topics
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.leader_hints import leader_hint, node_endpoints
from tidelog.broker.api.needs import HasImage, HasSharing
from tidelog.broker.api.share_rows import STALE_LEADER, Codes, acknowledge, member_of, text_of
from tidelog.broker.connections import RequestContext
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.security.rights import Operation
from tidelog.sharing.sessions import FINAL_EPOCH, INITIAL_EPOCH
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.share_fetch import NO_HINT
from tidelog.wire.values import millis


class Node(HasImage, HasSharing, Protocol):
    """What ShareAcknowledge needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Acknowledges; the reply comes when it is written."""
    epoch = request.share_session_epoch
    try:
        member = member_of(node.sharing, request)
        if epoch == INITIAL_EPOCH:
            raise ProtocolError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        node.sharing.sessions.resume(member, epoch)
    except ProtocolError as error:
        context.answer(
            reply(
                context.response_type,
                error_code=error.code,
                error_message=error.message or error.code.name,
                acquisition_lock_timeout=millis(0),
                responses=(),
                node_endpoints=(),
            )
        )
        return

    def on_done(codes: Codes, at: Instant) -> None:
        if epoch == FINAL_EPOCH:
            node.sharing.end_session(member, at)
        lock_ms = node.sharing.held.settings(member.group_id).lock_ms
        context.answer(_answer(node, context, codes, lock_ms))

    acknowledge(node.sharing, node.image, context.access, member, request, on_done, now)


def _answer(node: Node, context: RequestContext, codes: Codes, lock_ms: int) -> Entity:
    topics: dict[bytes, list[dict[str, object]]] = {}
    named: set[int] = set()
    for (topic_id, number), code in codes.items():
        topic = node.image.topics_by_id.get(topic_id)
        leader = NO_HINT
        if code in STALE_LEADER and topic is not None:
            leader = leader_hint(node.image, topic.name, number)
            named.add(leader.leader_id)
        topics.setdefault(topic_id, []).append(
            {
                "partition_index": number,
                "error_code": code,
                "error_message": text_of(code),
                "current_leader": leader._asdict(),
            }
        )
    return reply(
        context.response_type,
        acquisition_lock_timeout=millis(lock_ms),
        responses=[{"topic_id": each, "partitions": rows} for each, rows in topics.items()],
        node_endpoints=[
            {"node_id": node_id, "host": endpoint.host, "port": endpoint.port, "rack": rack}
            for node_id, endpoint, rack in node_endpoints(node.image, named, context.listener)
        ],
    )


API: Final = LocalApi(
    key=ApiKey.SHARE_ACKNOWLEDGE,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(1, 2),
    requires=(group(Operation.READ), topics(Operation.READ, answer="responses", blank=0)),
    handle=handle,
)

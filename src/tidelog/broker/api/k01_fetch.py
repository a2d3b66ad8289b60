"""Fetch (1), versions 4-18: reads by consumers and followers, with incremental sessions.

`fetch_sessions` knows what a request asks for; `replication/` decides what of it is read, and what
is answered. The Fetch of the controller listener is `k01_quorum_fetch.py`.

From version 16 on, an answer of NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH names the leader
(KIP-951), if there is one. Otherwise Kafka names -1, which no client can use: librdkafka counts it
as a change and then has no leader at all.

**Followers.** A follower's fetch moves the high watermark. A client that passed for a follower
could have records acknowledged that no replica holds (CVE-2018-1288). So a fetch with a replica id
must come by the inter-broker listener, from a principal with CLUSTER_ACTION if there is an
authorizer, and carry the broker epoch of a registration. Brokers send it since version 15, and the
leader compares it (`replication.brokers`). Any other fetch with a replica id is refused before it
has an effect.
"""

from dataclasses import dataclass, field
from typing import Final, Protocol

from tidelog.broker.api.checks import InHandler
from tidelog.broker.api.declaration import BROKERS, HotApi, VersionRange
from tidelog.broker.api.leader_hints import node_endpoints, with_leaders
from tidelog.broker.api.needs import (
    HasConfig,
    HasConnections,
    HasFetchSessions,
    HasImage,
    HasReplicas,
    HasThrottling,
)
from tidelog.broker.connections import RequestContext
from tidelog.broker.fetch_sessions import FetchSession
from tidelog.env.effects import Chunk
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.model import NO_EPOCH
from tidelog.replication.interest import Interest, interest_of
from tidelog.security.authorizer import Access
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire import fetch as wire
from tidelog.wire.api import ApiKey
from tidelog.wire.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchResponse

SENT_VERSION: Final = 18
"""What followers send."""
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
FIRST_VERSION_WITH_LEADERS: Final = 16
FIRST_VERSION_FOR_FOLLOWER_READS: Final = 11

_READ: Final = on(Operation.READ, ResourceType.TOPIC)
_CLUSTER_ACTION: Final = on(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, condition="replica id")
_STALE_LEADER: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class Node(
    HasConfig, HasConnections, HasFetchSessions, HasImage, HasReplicas, HasThrottling, Protocol
):
    """What Fetch needs."""


@dataclass(slots=True, eq=False)
class FetchCall:
    """A fetch under way."""

    context: RequestContext
    # The session that filters the response; None for a plain fetch.
    session: FetchSession | None
    # Whether every partition must be listed: a full fetch.
    full: bool
    # Partitions that the client may not read: never looked at, and in every answer.
    denied: list[FetchedPartition] = field(default_factory=list)
    # Whether a replica asks, whose bytes no quota counts.
    is_follower: bool = False


def handle(
    node: Node, context: RequestContext, frame: memoryview, offset: int, now: Instant
) -> None:
    """Asks the replicas; the reply comes through `on_reply`."""
    version = context.header.api_version
    request = wire.parse_request(version, frame, offset)
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    code = _objection(node, context, request)
    if code is not ErrorCode.NONE:
        asked = interest_of(request.partitions, by_id=by_id, standing=False)
        on_reply(node, FetchCall(context, None, True), _refusal(asked, code), now)
        return
    try:
        session, interest = node.fetch_sessions.open(request, by_id, now)
    except ProtocolError as fault:
        context.fill(_packed(context, FetchResponse(0, fault.code, 0, [])))
        return
    if request.replica_id < 0 and node.throttling.refuses_fetch(context, now):
        _answer_nothing(node, context, session, request)
        return
    call = FetchCall(context, session, request.session_epoch <= 0)
    if not context.access.is_unlimited and request.replica_id < 0:
        interest, call.denied = _allowed(node, context.access, session, interest, request)
        if not interest.wanted:
            on_reply(node, call, FetchResponse(0, ErrorCode.NONE, 0, []), now)
            return
    if request.replica_id >= 0:
        # Where it only follows, this is the one connection whose end shows its death.
        context.connection.broker_id = request.replica_id
        call.is_follower = True
    node.replicas.fetch(
        _bounded(node, context, request, now),
        call,
        now,
        interest=interest,
        followers_may_serve=version >= FIRST_VERSION_FOR_FOLLOWER_READS,
        listener=context.listener,
    )


def _objection(node: Node, context: RequestContext, request: FetchRequest) -> ErrorCode:
    """Why the sender is not accepted as the replica whose id it sends; NONE if it is."""
    if request.replica_id < 0:
        return ErrorCode.NONE
    is_broker = context.access.meets(_CLUSTER_ACTION, None)
    if context.listener != node.config.inter_broker_listener_name or not is_broker:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if request.replica_epoch == NO_EPOCH:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


def _allowed(
    node: Node,
    access: Access,
    session: FetchSession | None,
    interest: Interest,
    request: FetchRequest,
) -> tuple[Interest, list[FetchedPartition]]:
    """What the client may read of what it asks for, and the answers about the rest. A session that
    asked for nothing new, by a connection that may read all of it, is not looked through again."""
    if session is not None and session.allowed_for is access and not request.partitions:
        return interest, []
    codes = [_code_of(node, access, each.want, interest) for each in interest.wanted.values()]
    may_all = all(code is ErrorCode.NONE for code in codes)
    if session is not None:
        session.allowed_for = access if may_all else None
    if may_all:
        return interest, []
    wants = [each.want for each in interest.wanted.values()]
    coded = list(zip(wants, codes, strict=True))
    allowed = [want for want, code in coded if code is ErrorCode.NONE]
    denied = [_failed(want, code) for want, code in coded if code is not ErrorCode.NONE]
    return interest_of(allowed, by_id=interest.by_id, standing=False), denied


def _code_of(node: Node, access: Access, want: FetchPartition, interest: Interest) -> ErrorCode:
    """Why the log is not asked. About an id that is unknown now it never is: it may be that of a
    topic when the log is asked, or at the next fetch of the session."""
    name = want.topic
    if interest.by_id:
        topic = node.image.topics_by_id.get(want.topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        name = topic.name
    allowed = access.meets(_READ, name)
    return ErrorCode.NONE if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _bounded(
    node: Node, context: RequestContext, request: FetchRequest, now: Instant
) -> FetchRequest:
    if request.replica_id >= 0:
        return request
    most = context.connection.take_fetch_bytes(shared=node.connections.has_turns)
    max_bytes = min(request.max_bytes, node.config.broker.fetch_max_bytes, most)
    if node.throttling.is_on:
        max_bytes = node.throttling.most_fetched_bytes(context, max_bytes, now)
    # As Kafka: a client that wants more than it may get does not wait in vain.
    return request._replace(max_bytes=max_bytes, min_bytes=min(request.min_bytes, max_bytes))


def _answer_nothing(
    node: Node, context: RequestContext, session: FetchSession | None, request: FetchRequest
) -> None:
    """No records, because of a quota. To a request for a session that says that there is none, as
    in Kafka: an answer that makes one lists all partitions (KIP-219)."""
    session_id = 0
    if session is not None and request.session_epoch > 0:
        session_id = session.session_id
    elif session is not None:
        node.fetch_sessions.end(session.session_id)
    context.fill(_packed(context, FetchResponse(0, ErrorCode.NONE, session_id, [])))


def _refusal(interest: Interest, code: ErrorCode) -> FetchResponse:
    """The same code for all that is asked for."""
    answers = [_failed(each.want, code) for each in interest.wanted.values()]
    return FetchResponse(0, ErrorCode.NONE, 0, answers)


def _failed(want: FetchPartition, code: ErrorCode) -> FetchedPartition:
    # As in Kafka, null only beside what a replica answers.
    is_of_replica = code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    place = want.topic, want.topic_id, want.partition
    return FetchedPartition(*place, code, -1, -1, -1, [], 0, aborted=None if is_of_replica else [])


def on_reply(node: Node, call: FetchCall, response: FetchResponse, now: Instant) -> None:
    """The replicas have answered."""
    context = call.context
    if call.denied:
        response = response._replace(partitions=[*response.partitions, *call.denied])
    version = context.header.api_version
    if version >= FIRST_VERSION_WITH_LEADERS and any(
        answer.error_code in _STALE_LEADER for answer in response.partitions
    ):
        response = _with_leaders(node, context, response)
    response = node.fetch_sessions.close(response, call.session, call.full)
    chunks = _packed(context, response)
    if node.throttling.is_on and not call.is_follower:
        node.throttling.on_fetched(context, chunks, now)
        if context.throttle_ms:
            chunks = _packed(context, response)
    context.fill(chunks)


def _packed(context: RequestContext, response: FetchResponse) -> list[Chunk]:
    """The framed answer, with the pause that its quotas ask for by now."""
    header = context.header
    if context.throttle_ms:
        response = response._replace(throttle_ms=context.throttle_ms)
    return wire.pack_response(header.api_version, header.correlation_id, response)


def _with_leaders(node: Node, context: RequestContext, response: FetchResponse) -> FetchResponse:
    answers, leaders = with_leaders(node.image, response.partitions, _STALE_LEADER)
    endpoints = node_endpoints(node.image, leaders, context.listener)
    return response._replace(partitions=answers, node_endpoints=endpoints)


API: Final = HotApi(
    key=ApiKey.FETCH,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(4, 18),
    sent_version=SENT_VERSION,
    requires=(InHandler(rights=_READ), InHandler(rights=_CLUSTER_ACTION)),
    handle=handle,
)

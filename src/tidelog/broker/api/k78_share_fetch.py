"""ShareFetch (78), versions 1-2: a member of a share group acquires records of partitions led here.

The request may carry acknowledgements of what was acquired before, which come first. It is answered
when these are written and something was acquired, or has failed, or `max_wait_ms` have passed. With
`is_renew_ack` (KIP-1222) nothing is fetched: the answer must be there before the locks end.

The answer lists partitions of which there is something to say: records, an error, or the outcome of
acknowledgements. `broker/held_shares.py` has the share partitions, `sharing/sessions.py` the
sessions. Where sessions are at their limit, the refusal waits for as long as a fetch would. The
first fetch of a cluster creates `__share_group_state`.

Served where `share.version` is 1; UNSUPPORTED_VERSION otherwise.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from tidelog.broker.api.checks import InHandler, group
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.k10_find_coordinator import shares_topic
from tidelog.broker.api.leader_hints import leader_hint, node_endpoints
from tidelog.broker.api.mirroring import SENTENCE
from tidelog.broker.api.needs import HasAutoTopics, HasConfig, HasImage, HasSharing, HasThrottling
from tidelog.broker.api.share_rows import (
    READ_TOPIC,
    STALE_LEADER,
    Codes,
    acknowledge,
    member_of,
    places_of,
    text_of,
)
from tidelog.broker.connections import RequestContext
from tidelog.broker.share_fetches import ShareFetchCall
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.model import NO_LEADER, SHARES_TOPIC, TopicId
from tidelog.security.rights import Operation
from tidelog.sharing.sessions import FINAL_EPOCH, INITIAL_EPOCH, Member, SharedPartition
from tidelog.sharing.values import BATCH_OPTIMIZED, RECORD_LIMIT, AcquireRequest, ShareKey
from tidelog.wire import share_fetch as wire
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.entities import field as field_of
from tidelog.wire.share_fetch import ShareFetched, ShareFetchResponse
from tidelog.wire.values import bytes_of, to_millis


class Node(HasAutoTopics, HasConfig, HasImage, HasSharing, HasThrottling, Protocol):
    """What ShareFetch needs."""


@dataclass(slots=True, eq=False)
class _Call:
    """One request under way."""

    node: Node
    context: RequestContext
    member: Member
    request: Entity
    # Both parts of the answer, when they are there.
    codes: Codes | None = None
    fetched: list[ShareFetched] | None = None
    # Partitions that cannot be fetched from here.
    refused: list[ShareFetched] = field(default_factory=list)

    def on_acknowledged(self, codes: Codes, now: Instant) -> None:
        """All acknowledgements are written or refused."""
        self.codes = codes
        self.maybe_answer(now)

    def on_fetched(self, fetched: list[ShareFetched], now: Instant) -> None:
        """Something was acquired, or there is nothing more to wait for."""
        self.fetched = fetched
        self.maybe_answer(now)

    def maybe_answer(self, now: Instant) -> None:
        """Answers when both parts are there."""
        if self.codes is None or self.fetched is None:
            return
        if self.request.share_session_epoch == FINAL_EPOCH:
            self.node.sharing.end_session(self.member, now)
        rows = {
            SharedPartition(row.topic_id, row.partition): row
            for row in (*self.fetched, *self.refused)
            if row.acquired or row.error_code is not ErrorCode.NONE
        }
        for place, code in self.codes.items():
            row = rows.setdefault(place, ShareFetched(*place))
            row.acknowledge_error_code, row.acknowledge_error_message = code, text_of(code)
        response = ShareFetchResponse(partitions=list(rows.values()))
        response.lock_ms = self.node.sharing.held.settings(self.member.group_id).lock_ms
        self._name_leaders(response)
        correlation_id, throttling = self.context.header.correlation_id, self.node.throttling
        chunks = wire.pack_response(correlation_id, response)
        if throttling.is_on:
            throttling.on_fetched(self.context, chunks, now)
            if self.context.throttle_ms:
                response.throttle_ms = self.context.throttle_ms
                chunks = wire.pack_response(correlation_id, response)
        self.context.fill(chunks)

    def _name_leaders(self, response: ShareFetchResponse) -> None:
        image = self.node.image
        named: set[int] = set()
        for row in response.partitions:
            topic = image.topics_by_id.get(row.topic_id)
            if row.error_code in STALE_LEADER and topic is not None:
                row.leader = leader_hint(image, topic.name, row.partition)
                named.add(row.leader.leader_id)
        if named - {NO_LEADER}:
            response.node_endpoints = node_endpoints(image, named, self.context.listener)


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Acknowledges, then fetches."""
    try:
        member = member_of(node.sharing, request)
        _check(context, request)
        wanted = _wanted(node, context, member, request)
    except ProtocolError as error:
        response = ShareFetchResponse(error.code, error.message or error.code.name)

        def refuse(_: list[ShareFetched], at: Instant) -> None:
            context.fill(wire.pack_response(context.header.correlation_id, response))

        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            node.sharing.wait(_fetch_of(node, context, request, {}, refuse, now), now)
        else:
            refuse([], now)
        return
    if SHARES_TOPIC not in node.image.topics_by_name:
        node.auto_topics.create_internal(shares_topic(node.config.shares), now)
    call = _Call(node, context, member, request)
    if request.share_session_epoch == INITIAL_EPOCH or not _has_acknowledgements(request):
        call.on_acknowledged({}, now)
    else:
        access = context.access
        done = call.on_acknowledged
        acknowledge(node.sharing, node.image, access, member, request, done, now)
    if field_of(request, "is_renew_ack", False):
        call.on_fetched([], now)
        return
    known = _known(node, wanted, call)
    keys = {ShareKey(member.group_id, *place): name for place, name in known.items()}
    node.sharing.fetch(_fetch_of(node, context, request, keys, call.on_fetched, now), now)


def _check(context: RequestContext, request: Entity) -> None:
    """Raises INVALID_REQUEST."""
    if field_of(request, "is_renew_ack", False) and (
        request.max_bytes or request.min_bytes or request.max_records or to_millis(request.max_wait)
    ):
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "a renewal fetches nothing")
    if field_of(request, "share_acquire_mode", BATCH_OPTIMIZED) not in (
        BATCH_OPTIMIZED,
        RECORD_LIMIT,
    ):
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "unknown acquire mode")
    if request.share_session_epoch == INITIAL_EPOCH and _has_acknowledgements(request):
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "acknowledgements before a session")


def _has_acknowledgements(request: Entity) -> bool:
    return any(row.acknowledgement_batches for _, row in places_of(request.topics))


def _wanted(
    node: Node, context: RequestContext, member: Member, request: Entity
) -> list[SharedPartition]:
    """The partitions of the member's session, as the request leaves it, in the order in which they
    have their turns. Raises what a session refuses."""
    sessions, epoch = node.sharing.sessions, request.share_session_epoch
    named = [place for place, _ in places_of(request.topics)]
    if epoch == INITIAL_EPOCH:
        session = sessions.begin(member, context.connection.connection_id, named)
    else:
        session = sessions.resume(member, epoch)
        if epoch == FINAL_EPOCH:
            return []
        session.partitions.update(dict.fromkeys(named))
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                place = SharedPartition(TopicId(bytes_of(topic.topic_id)), number)
                session.partitions.pop(place, None)
    wanted = list(session.partitions)
    turn = epoch % len(wanted) if wanted else 0
    return wanted[turn:] + wanted[:turn]


def _known(node: Node, wanted: list[SharedPartition], call: _Call) -> dict[SharedPartition, str]:
    """The partitions that exist, with the names of their topics; the others are refused."""
    found: dict[SharedPartition, str] = {}
    for place in wanted:
        topic = node.image.topics_by_id.get(place.topic_id)
        if topic is not None and not call.context.access.meets(READ_TOPIC, topic.name):
            denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            call.refused.append(ShareFetched(*place, denied, SENTENCE))
            continue
        if topic is not None and place.partition in topic.partitions:
            found[place] = topic.name
            continue
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
        if topic is not None:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        call.refused.append(ShareFetched(*place, unknown, unknown.name))
    return found


def _fetch_of(
    node: Node,
    context: RequestContext,
    request: Entity,
    keys: dict[ShareKey, str],
    on_done: Callable[[list[ShareFetched], Instant], None],
    now: Instant,
) -> ShareFetchCall:
    max_bytes = min(request.max_bytes, node.config.broker.fetch_max_bytes)
    return ShareFetchCall(
        request=AcquireRequest(
            request.member_id or "",
            request.max_records,
            max(1, request.batch_size),
            field_of(request, "share_acquire_mode", BATCH_OPTIMIZED) == RECORD_LIMIT,
        ),
        wanted=keys,
        max_bytes=max_bytes,
        min_bytes=min(request.min_bytes, max_bytes),
        deadline=Instant(now + to_millis(request.max_wait)),
        on_done=on_done,
        is_open=lambda: context.connection.open,
    )


API: Final = LocalApi(
    key=ApiKey.SHARE_FETCH,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(1, 2),
    requires=(group(Operation.READ), InHandler(rights=READ_TOPIC)),
    handle=handle,
)

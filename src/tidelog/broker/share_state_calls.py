"""What group coordinators ask of share coordinators: that states begin, that they end, how far they
are.

    asked ──> a request to each coordinator ──> answered
      ^                     │
      └──── parked ─────────┘  no coordinator, no answer, or not yet

This node asks itself in the same way. A call is about partitions of one group, which may have
different coordinators (`share_coordinators.py`), and ends when all of them have answered, or after
`request.timeout.ms`: partitions without an answer are COORDINATOR_NOT_AVAILABLE then. They may have
been carried out all the same.

Invariant: every call ends, once (EveryCallEnds).

Source: KIP-932; Kafka's PersisterStateManager.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidelog.broker.peers import PeerChannels, Purpose
from tidelog.broker.share_coordinators import (
    NOT_YET,
    RETRY_MS,
    answers_of,
    request_of,
    share_coordinator,
)
from tidelog.config import NodeConfig
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.consumer_records import IdPartition
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.shares.records import SharePartition
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity

_VERSIONS: Final = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: 0,
    ApiKey.DELETE_SHARE_GROUP_STATE: 0,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: 1,
}

Fields = Mapping[str, int]
"""What is said about one partition in a request, beside its number."""


class StateAnswer(NamedTuple):
    """What a share coordinator says about one partition."""

    error_code: ErrorCode
    row: Entity | None = None
    """The partition in the answer."""


Answers = Mapping[IdPartition, StateAnswer]


# Compared by identity.
@dataclass(slots=True, eq=False)
class _Call:
    """A call that has not ended."""

    key: ApiKey
    group_id: str
    give_up_at: Instant
    on_done: Callable[[Answers, Instant], None]
    # Partitions that are to be asked about now.
    waiting: dict[IdPartition, Fields]
    # Those that a request is under way for.
    under_way: dict[IdPartition, Fields] = field(default_factory=dict)
    found: dict[IdPartition, StateAnswer] = field(default_factory=dict)


class _Request(NamedTuple):
    """A request under way."""

    call: _Call
    partitions: tuple[IdPartition, ...]


@dataclass(slots=True, eq=False)
class ShareStateCalls:
    """The calls of one node."""

    config: NodeConfig
    peers: PeerChannels
    # Has the topic created.
    create_topic: Callable[[Instant], None]
    # The newest image, for leaders.
    _image: MetadataImage = field(default=EMPTY_IMAGE, init=False)
    # All calls that have not ended, in the order in which they came.
    _calls: dict[_Call, None] = field(default_factory=dict, init=False)
    # When what is parked is tried again; `None` while nothing is.
    _retry_at: Instant | None = field(default=None, init=False)

    def ask(
        self,
        key: ApiKey,
        group_id: str,
        partitions: Mapping[IdPartition, Fields],
        on_done: Callable[[Answers, Instant], None],
        now: Instant,
    ) -> None:
        """Asks about these partitions of a group; `on_done` is called once, when all of them have
        an answer."""
        give_up_at = Instant(now + self.config.broker.request_timeout_ms)
        self._calls[_Call(key, group_id, give_up_at, on_done, dict(partitions))] = None
        self._retry_at = now

    def on_image(self, image: MetadataImage) -> None:
        """Leaders may have changed: what is parked is tried again."""
        self._image = image
        if self._retry_at is not None:
            self._retry_at = Instant(0)

    # A tick -------------------------------------------------------------------------------

    def flow(self, now: Instant) -> bool:
        """Sends what is to be sent, and ends the calls that are over."""
        if self._retry_at is None or now < self._retry_at:
            return False
        self._retry_at = None
        for call in list(self._calls):
            if call.waiting and call.give_up_at <= now:
                late = StateAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                call.found |= dict.fromkeys(call.waiting, late)
                call.waiting.clear()
            self._send_all(call, now)
            self._settle(call, now)
        return True

    def _send_all(self, call: _Call, now: Instant) -> None:
        """A request to each coordinator that can be reached."""
        by_leader: dict[int, list[IdPartition]] = {}
        for each in call.waiting:
            leader_id = self._leader_of(call.group_id, each, now)
            if leader_id is not None:
                by_leader.setdefault(leader_id, []).append(each)
        for leader_id, partitions in by_leader.items():
            for each in partitions:
                call.under_way[each] = call.waiting.pop(each)
            self._send(leader_id, _Request(call, tuple(partitions)), now)
        if call.waiting:
            self._park(now)

    def _leader_of(self, group_id: str, each: IdPartition, now: Instant) -> int | None:
        leader_id = share_coordinator(self._image, SharePartition(group_id, *each))
        if leader_id is None:
            self.create_topic(now)
            return None
        return leader_id if self.peers.knows(leader_id, Purpose.SHARE_GROUPS) else None

    def _send(self, leader_id: int, request: _Request, now: Instant) -> None:
        client_id = f"broker-{self.config.node_id}-share-groups"
        entity = _entity_of(request)
        deadline = Instant(now + self.config.broker.request_timeout_ms)
        self.peers.ask(leader_id, Purpose.SHARE_GROUPS, entity, client_id, request, deadline)

    def _park(self, now: Instant) -> None:
        retry_at = Instant(now + RETRY_MS)
        self._retry_at = retry_at if self._retry_at is None else min(self._retry_at, retry_at)

    def _settle(self, call: _Call, now: Instant) -> None:
        if call in self._calls and not call.waiting and not call.under_way:
            del self._calls[call]
            call.on_done(call.found, now)

    # Answers ------------------------------------------------------------------------------

    def on_answered(self, token: object, frame: memoryview | bytes, now: Instant) -> None:
        """A coordinator answered. Raises `MalformedFrame`."""
        assert isinstance(token, _Request), f"unexpected token {token!r}"
        call, version = token.call, _VERSIONS[token.call.key]
        _, entity = codec.decode_response(call.key, version, frame)
        for each, code, row in answers_of(entity, token.partitions):
            self._on_code(call, each, StateAnswer(code, row), now)
        self._settle(call, now)

    def on_failed(self, token: object, now: Instant) -> None:
        """A coordinator did not answer."""
        assert isinstance(token, _Request), f"unexpected token {token!r}"
        for each in token.partitions:
            self._on_code(token.call, each, StateAnswer(ErrorCode.NETWORK_EXCEPTION), now)

    def _on_code(self, call: _Call, each: IdPartition, answer: StateAnswer, now: Instant) -> None:
        fields = call.under_way.pop(each)
        if answer.error_code in NOT_YET:
            call.waiting[each] = fields
            self._park(now)
        else:
            call.found[each] = answer

    def deadline(self) -> Instant | None:
        """When something is tried again."""
        return self._retry_at

    def check(self) -> None:
        """Asserts that nothing waits for what cannot come."""
        for call in self._calls:
            assert call.waiting or call.under_way, f"EveryCallEnds: {call} is over"
            assert not call.waiting or self._retry_at is not None, f"EveryCallEnds: {call} waits"


def _entity_of(request: _Request) -> Entity:
    call = request.call
    rows = [
        (each.topic_id, {"partition": each.partition, **call.under_way[each]})
        for each in request.partitions
    ]
    return request_of(codec.request_class(call.key, _VERSIONS[call.key]), call.group_id, rows)

"""Calls to the coordinators of share partitions: who is asked, what travels together, when again.

    asked ──> queue of its share partition ──> a request to the coordinator ──> answered
                    ^                                     │
                    └──── asked again after `RETRY_MS` ───┘  no coordinator, no answer, or not yet

All that is asked of one coordinator in a tick, in one API and about one group, travels together;
this node asks itself in the same way. Leaders of partitions read and write states
(`share_persister.py`), group coordinators begin, end and describe them (`share_state_calls.py`).

**Order.** There is one call under way for each share partition at a time, and those behind it wait,
also when it is asked again.

A call is tried until `request.timeout.ms` have passed, then it ends as COORDINATOR_NOT_AVAILABLE.
It may have been carried out all the same.

Invariant: every call ends, once (EveryCallEnds).

Source: KIP-932; Kafka's PersisterStateManager.
"""

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tidelog.broker.peers import PeerChannels, Purpose
from tidelog.broker.share_coordinators import (
    NOT_YET,
    RETRY_MS,
    answers_of,
    request_of,
    share_coordinator,
)
from tidelog.config import NodeConfig
from tidelog.env.instant import Instant, earliest
from tidelog.errors import ErrorCode
from tidelog.groups.consumer_records import IdPartition
from tidelog.limits import MAX_STATES_PER_REQUEST
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.shares.records import SharePartition
from tidelog.sharing.values import ShareKey
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity

SENT_VERSIONS: Final = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: 0,
    ApiKey.READ_SHARE_GROUP_STATE: 0,
    ApiKey.WRITE_SHARE_GROUP_STATE: 1,
    ApiKey.DELETE_SHARE_GROUP_STATE: 0,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: 1,
}

OnRow = Callable[[ErrorCode, Entity | None, Instant], None]
"""Gets the error of a share partition, and its row in the answer if it has one."""


@dataclass(slots=True, eq=False)
class ShareCall:
    """What is asked about one share partition."""

    api: ApiKey
    give_up_at: Instant
    on_done: OnRow
    # What is said about the partition, beside its number.
    fields: Mapping[str, Any]


@dataclass(slots=True, eq=False)
class _Line:
    """The calls about one share partition."""

    key: ShareKey
    # The first is the next to be sent.
    waiting: deque[ShareCall] = field(default_factory=deque)
    # Those that are sent as one; empty while none is under way.
    under_way: Sequence[ShareCall] = ()


class _Request(NamedTuple):
    """The lines whose calls travel together."""

    api: ApiKey
    lines: tuple[_Line, ...]


class ShareCalls:
    """The calls of one node for one purpose."""

    purpose: Purpose
    client: str
    """How the connections name this node, behind its id."""

    def __init__(self, config: NodeConfig, peers: PeerChannels) -> None:
        self._config = config
        self._peers = peers
        # The newest image, for the leaders of the topic.
        self._image: MetadataImage = EMPTY_IMAGE
        # The share partitions that have calls.
        self._lines: dict[ShareKey, _Line] = {}
        # Those of them whose next call is to be sent.
        self._ready: dict[_Line, None] = {}
        # Those whose call is tried again, and when.
        self._resting: dict[_Line, None] = {}
        self._retry_at: Instant | None = None
        # How many calls wait or are under way.
        self._count = 0

    def on_image(self, image: MetadataImage) -> None:
        """Coordinators may have changed: what failed is tried again at once."""
        self._image = image
        self._rouse()

    def _rouse(self) -> None:
        self._ready.update(self._resting)
        self._resting.clear()
        self._retry_at = None

    def _deadline_of(self, now: Instant) -> Instant:
        return Instant(now + self._config.broker.request_timeout_ms)

    # What the kinds of calls decide -------------------------------------------------------------

    def _take(self, waiting: deque[ShareCall]) -> list[ShareCall]:
        """The next calls that can be sent as one."""
        return [waiting.popleft()]

    def _fields_of(self, calls: Sequence[ShareCall]) -> Mapping[str, Any]:
        """What is said about the partition of these calls, which are sent as one."""
        return calls[0].fields

    def _on_no_coordinator(self, now: Instant) -> None:
        """The topic does not exist, or its partition has no leader."""

    # A tick -------------------------------------------------------------------------------------

    def _add(self, key: ShareKey, call: ShareCall) -> None:
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(key)
        line.waiting.append(call)
        self._count += 1
        if not line.under_way and line not in self._resting:
            self._ready[line] = None

    def flow(self, now: Instant) -> bool:
        """Sends what is to be sent now; returns whether there was anything."""
        if self._retry_at is not None and self._retry_at <= now:
            self._rouse()
        if not self._ready:
            return False
        ready, self._ready = self._ready, {}
        requests: dict[tuple[int, str, ApiKey], list[_Line]] = {}
        for line in ready:
            coordinator = self._coordinator_of(line.key, now)
            if coordinator is None:
                self._try_again(line, now)
                continue
            line.under_way = self._take(line.waiting)
            place = (coordinator, line.key.group_id, line.under_way[0].api)
            requests.setdefault(place, []).append(line)
        for (coordinator, _, api), lines in requests.items():
            for at in range(0, len(lines), MAX_STATES_PER_REQUEST):
                chunk = tuple(lines[at : at + MAX_STATES_PER_REQUEST])
                self._send(coordinator, _Request(api, chunk), now)
        return True

    def _coordinator_of(self, key: ShareKey, now: Instant) -> int | None:
        """The coordinator of this share partition, if it can be reached."""
        leader = share_coordinator(self._image, SharePartition(*key))
        if leader is None:
            self._on_no_coordinator(now)
            return None
        return leader if self._peers.knows(leader, self.purpose) else None

    def _send(self, coordinator: int, request: _Request, now: Instant) -> None:
        rows = [
            (
                line.key.topic_id,
                {"partition": line.key.partition, **self._fields_of(line.under_way)},
            )
            for line in request.lines
        ]
        request_type = codec.request_class(request.api, SENT_VERSIONS[request.api])
        entity = request_of(request_type, request.lines[0].key.group_id, rows)
        self._ask(coordinator, entity, request, now)

    def _ask(self, node_id: int, entity: Entity, token: Hashable, now: Instant) -> None:
        client_id = f"broker-{self._config.node_id}-{self.client}"
        deadline = self._deadline_of(now)
        self._peers.ask(node_id, self.purpose, entity, client_id, token, deadline)

    # Answers ----------------------------------------------------------------------------------

    def on_answered(self, token: object, frame: memoryview | bytes, now: Instant) -> None:
        """A coordinator answered. Raises `MalformedFrame`."""
        assert isinstance(token, _Request), f"unexpected token {token!r}"
        _, entity = codec.decode_response(token.api, SENT_VERSIONS[token.api], frame)
        asked = [IdPartition(line.key.topic_id, line.key.partition) for line in token.lines]
        for line, (_, code, row) in zip(token.lines, answers_of(entity, asked), strict=True):
            self._on_code(line, code, row, now)

    def on_failed(self, token: object, now: Instant) -> None:
        """A coordinator did not answer: it may have carried it out or not."""
        assert isinstance(token, _Request), f"unexpected token {token!r}"
        for line in token.lines:
            self._on_code(line, ErrorCode.NETWORK_EXCEPTION, None, now)

    def _on_code(self, line: _Line, code: ErrorCode, row: Entity | None, now: Instant) -> None:
        calls, line.under_way = line.under_way, ()
        if code in NOT_YET:
            line.waiting.extendleft(reversed(calls))
            self._try_again(line, now)
            return
        self._go_on(line)
        for call in calls:
            self._end(call, code, row, now)

    def _try_again(self, line: _Line, now: Instant) -> None:
        """Rests for a while, without the calls that were tried for long enough."""
        over = [call for call in line.waiting if call.give_up_at <= now]
        if over:
            line.waiting = deque(call for call in line.waiting if call.give_up_at > now)
        if line.waiting:
            self._resting[line] = None
            if self._retry_at is None:
                self._retry_at = Instant(now + RETRY_MS)
        else:
            self._lines.pop(line.key, None)
        for call in over:
            self._end(call, ErrorCode.COORDINATOR_NOT_AVAILABLE, None, now)

    def _go_on(self, line: _Line) -> None:
        if line.waiting:
            self._ready[line] = None
        else:
            del self._lines[line.key]

    def _end(self, call: ShareCall, code: ErrorCode, row: Entity | None, now: Instant) -> None:
        self._count -= 1
        call.on_done(code, row, now)

    def deadline(self) -> Instant | None:
        """When something is tried again."""
        return earliest(self._retry_at, Instant(0) if self._ready else None)

    def check(self) -> None:
        """Asserts that every share partition with calls is ready, resting, or asked about."""
        count = 0
        for key, line in self._lines.items():
            assert line.key == key, f"{line} is filed as {key}"
            states = (bool(line.under_way), line in self._ready, line in self._resting)
            assert sum(states) == 1, f"EveryCallEnds: {key} is in {sum(states)} places"
            count += len(line.waiting) + len(line.under_way)
        assert count == self._count, f"EveryCallEnds: {count} calls, not {self._count}"
        assert not self._resting or self._retry_at is not None, "EveryCallEnds: no time is set"

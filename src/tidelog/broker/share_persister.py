"""The state of share partitions, read from and written to share coordinators.

    asked ──> queue of its share partition ──> a request to the coordinator ──> answered
                    ^                                     │
                    └──── asked again after `RETRY_MS` ───┘  no coordinator, no answer, or not yet

All that is asked of one coordinator (`share_coordinators.py`) in a tick about one group travels
together; this node asks itself in the same way.

**Order.** A coordinator keeps the newest word about an offset. So there is one call under way for
each share partition at a time, and those behind it wait, also when it is asked again: otherwise a
release could arrive behind the acceptance of the next delivery, and undo it. Writes that wait
behind another leave together, up to the first two that are about the same offset.

A call is tried until `request.timeout.ms` have passed, then it ends as COORDINATOR_NOT_AVAILABLE.
It may have been carried out all the same. Bound: `limits.MAX_SHARE_STATE_CALLS`.

Invariant: every call ends, once (EveryCallEnds).

Source: KIP-932; Kafka's PersisterStateManager.
"""

from collections import deque
from collections.abc import Callable, Sequence
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
from tidelog.env.instant import Instant, earliest
from tidelog.errors import ErrorCode
from tidelog.groups.consumer_records import IdPartition
from tidelog.limits import MAX_SHARE_STATE_CALLS, MAX_STATES_PER_REQUEST
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.shares import records
from tidelog.sharing.in_flight import Change
from tidelog.sharing.share_partition import SharePartition
from tidelog.sharing.values import ShareKey, ShareState, StateBatch
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity

READ_VERSION: Final = 0
WRITE_VERSION: Final = 1

OnRead = Callable[[ShareState | ErrorCode, Instant], None]
OnWritten = Callable[[ErrorCode, Instant], None]


@dataclass(slots=True, eq=False)
class ReadCall:
    """What is known about a share partition?"""

    leader_epoch: int
    give_up_at: Instant
    on_done: OnRead


@dataclass(slots=True, eq=False)
class WriteCall:
    """A change of a share partition."""

    share: SharePartition
    change: Change
    give_up_at: Instant
    on_done: OnWritten


StateCall = ReadCall | WriteCall


@dataclass(slots=True, eq=False)
class _Line:
    """The calls about one share partition."""

    key: ShareKey
    # The first is the next to be sent.
    waiting: deque[StateCall] = field(default_factory=deque)
    # One read, or writes of one leadership; empty while none is under way.
    under_way: Sequence[StateCall] = ()


class _Request(NamedTuple):
    """The lines whose calls travel together."""

    is_read: bool
    lines: tuple[_Line, ...]


class SharePersister:
    """The calls of one node."""

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

    @property
    def is_full(self) -> bool:
        """Whether no further call is taken."""
        return self._count >= MAX_SHARE_STATE_CALLS

    def on_image(self, image: MetadataImage) -> None:
        """Coordinators may have changed: what failed is tried again at once."""
        self._image = image
        self._rouse()

    def _rouse(self) -> None:
        self._ready.update(self._resting)
        self._resting.clear()
        self._retry_at = None

    # Calls ------------------------------------------------------------------------------------

    def read(self, key: ShareKey, leader_epoch: int, on_done: OnRead, now: Instant) -> None:
        """Asks for a state, behind all that is to be written before."""
        self._add(key, ReadCall(leader_epoch, self._deadline_of(now), on_done))

    def write(
        self, share: SharePartition, change: Change, on_done: OnWritten, now: Instant
    ) -> None:
        """Writes a change, with the start of the share partition as it is when it leaves."""
        self._add(share.key, WriteCall(share, change, self._deadline_of(now), on_done))

    def _deadline_of(self, now: Instant) -> Instant:
        return Instant(now + self._config.broker.request_timeout_ms)

    def _add(self, key: ShareKey, call: StateCall) -> None:
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
        requests: dict[tuple[int, str, bool], list[_Line]] = {}
        for line in ready:
            coordinator = self._coordinator_of(line.key)
            if coordinator is None:
                self._try_again(line, now)
                continue
            line.under_way = _take(line.waiting)
            is_read = isinstance(line.under_way[0], ReadCall)
            requests.setdefault((coordinator, line.key.group_id, is_read), []).append(line)
        for (coordinator, _, is_read), lines in requests.items():
            for at in range(0, len(lines), MAX_STATES_PER_REQUEST):
                chunk = tuple(lines[at : at + MAX_STATES_PER_REQUEST])
                self._send(coordinator, _Request(is_read, chunk), now)
        return True

    def _coordinator_of(self, key: ShareKey) -> int | None:
        """The coordinator of this share partition, if it can be reached."""
        leader = share_coordinator(self._image, records.SharePartition(*key))
        is_known = leader is not None and self._peers.knows(leader, Purpose.SHARE_STATE)
        return leader if is_known else None

    def _send(self, coordinator: int, request: _Request, now: Instant) -> None:
        client_id = f"broker-{self._config.node_id}-shares"
        entity, deadline = _entity_of(request), self._deadline_of(now)
        self._peers.ask(coordinator, Purpose.SHARE_STATE, entity, client_id, request, deadline)

    # Answers ----------------------------------------------------------------------------------

    def on_answered(self, token: object, frame: memoryview | bytes, now: Instant) -> None:
        """A coordinator answered. Raises `MalformedFrame`."""
        assert isinstance(token, _Request), f"unexpected token {token!r}"
        if token.is_read:
            _, entity = codec.decode_response(ApiKey.READ_SHARE_GROUP_STATE, READ_VERSION, frame)
        else:
            _, entity = codec.decode_response(ApiKey.WRITE_SHARE_GROUP_STATE, WRITE_VERSION, frame)
        asked = [IdPartition(line.key.topic_id, line.key.partition) for line in token.lines]
        for line, (_, code, row) in zip(token.lines, answers_of(entity, asked), strict=True):
            self._on_code(line, code, row, now)

    def on_failed(self, token: object, now: Instant) -> None:
        """A coordinator did not answer: it may have written the changes or not."""
        assert isinstance(token, _Request), f"unexpected token {token!r}"
        for line in token.lines:
            self._on_code(line, ErrorCode.NETWORK_EXCEPTION, None, now)

    def _on_code(self, line: _Line, code: ErrorCode, row: Entity, now: Instant) -> None:
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

    def _end(self, call: StateCall, code: ErrorCode, row: Entity, now: Instant) -> None:
        self._count -= 1
        if isinstance(call, WriteCall):
            call.on_done(code, now)
        elif code is ErrorCode.NONE:
            batches = [
                StateBatch(
                    each.first_offset, each.last_offset, each.delivery_state, each.delivery_count
                )
                for each in row.state_batches
            ]
            batches.sort()
            call.on_done(ShareState(row.state_epoch, row.start_offset, batches), now)
        else:
            call.on_done(code, now)

    def deadline(self) -> Instant | None:
        """When something is tried again."""
        return earliest(self._retry_at, Instant(0) if self._ready else None)

    def check(self) -> None:
        """Asserts that nothing waits for what cannot come."""
        count = 0
        for key, line in self._lines.items():
            assert line.key == key, f"{line} is filed as {key}"
            states = (bool(line.under_way), line in self._ready, line in self._resting)
            assert sum(states) == 1, f"EveryCallEnds: {key} is in {sum(states)} places"
            count += len(line.waiting) + len(line.under_way)
        assert count == self._count, f"EveryCallEnds: {count} calls, not {self._count}"
        assert not self._resting or self._retry_at is not None, "EveryCallEnds: no time is set"


def _take(waiting: deque[StateCall]) -> list[StateCall]:
    """The next calls that can be one: a read, or writes of one leadership about different
    offsets."""
    taken = [waiting.popleft()]
    first = taken[0]
    if isinstance(first, ReadCall):
        return taken
    covered = list(first.change.batches)
    while waiting:
        call = waiting[0]
        if isinstance(call, ReadCall) or call.share is not first.share:
            break
        if any(
            new.first <= old.last and old.first <= new.last
            for new in call.change.batches
            for old in covered
        ):
            break
        covered += call.change.batches
        taken.append(waiting.popleft())
    return taken


def _entity_of(request: _Request) -> Entity:
    """The request as it is sent."""
    row_of = _read_row if request.is_read else _write_row
    rows = [(line.key.topic_id, row_of(line)) for line in request.lines]
    if request.is_read:
        request_type = codec.request_class(ApiKey.READ_SHARE_GROUP_STATE, READ_VERSION)
    else:
        request_type = codec.request_class(ApiKey.WRITE_SHARE_GROUP_STATE, WRITE_VERSION)
    return request_of(request_type, request.lines[0].key.group_id, rows)


def _read_row(line: _Line) -> dict[str, object]:
    call = line.under_way[0]
    assert isinstance(call, ReadCall), f"{call} is not a read"
    return {"partition": line.key.partition, "leader_epoch": call.leader_epoch}


def _write_row(line: _Line) -> dict[str, object]:
    calls = [call for call in line.under_way if isinstance(call, WriteCall)]
    share = calls[0].share
    batches = sorted(batch for call in calls for batch in call.change.batches)
    return {
        "partition": line.key.partition,
        "state_epoch": share.state_epoch,
        "leader_epoch": share.leader_epoch,
        "start_offset": share.start,
        "delivery_complete_count": share.done_in_flight,
        "state_batches": [
            {
                "first_offset": first,
                "last_offset": last,
                "delivery_state": int(state),
                "delivery_count": count,
            }
            for first, last, state, count in batches
        ],
    }

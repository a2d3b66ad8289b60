"""Accepted connections: frames in, replies out in the order of their requests.

Kafka's protocol answers the requests of one connection in order. They need not be *handled* one
after the other. Every request gets a slot in its connection's queue on arrival; components fill
slots in any order and at any time (an `acks=all` produce waits for followers, a fetch waits for
data); at the end of a tick the filled slots at the head of each queue leave together as one `Send`.
So a pipelining producer costs one write a tick, not one a request.

One read can bring ten thousand requests. A connection handles `limits.MAX_REQUESTS_PER_TURN` of
them in a row; what is left over is kept and gets a turn in each of the following ticks, between
which every other connection, peer and timer has its own. Nothing more is read meanwhile.

A connection without a request for `connections.max.idle.ms`, with all of them answered, is closed.
One that never sent any stays where nodes connect: they watch each other over such, and the end of
one would look like a death. Where a listener asks for a login, it must have logged in
(`logins.py`); its messages do not count as requests.

Nor may clients fill the memory of a node. A connection has one fetch under way, and nothing
behind it is handled before its answer has left; so it is for a client that does not read what it
was sent (`Stalled`), for one whose batches are looked into (`inspections.py`), and for a large one
that waits for its answer. These, and requests that have not come as a whole or wait for their turn,
are bounded together: beyond that the one is closed whose request is under way for longest.

A connection may be muted for a time (`throttling.py`): its requests wait, in the backlog and
unread, and its answers leave.

Invariants: a slot is filled exactly once, and not before the request has passed the checks of its
API (*AuthorizedFirst*); an open slot is known to a component that will fill it
(*EveryRequestIsAnsweredOrClosed*); slots leave in order; no connection has more than
`limits.MAX_IN_FLIGHT_REQUESTS` open slots; one that has as many is not read until half of them
have left, one with requests left over not until they are handled. What is held of requests is
within its bound (*HeldIsBounded*).
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from sys import getrefcount
from typing import Final

from tidelog.broker.login import Login
from tidelog.config import NodeConfig
from tidelog.env.disk import Buffer
from tidelog.env.effects import Chunk, Close, EffectQueue, HoldReading, Send
from tidelog.env.held import Held
from tidelog.env.instant import NEVER, Instant
from tidelog.errors import UnwritableText
from tidelog.limits import (
    FIRST_FETCHED_BYTES,
    LARGE_READ_BYTES,
    MAX_FETCHED_BYTES,
    MAX_HELD_REQUEST_BYTES,
    MAX_IN_FLIGHT_REQUESTS,
    MAX_TURNS_PER_TICK,
    SHARED_FETCHED_BYTES,
)
from tidelog.model import ANONYMOUS, Principal
from tidelog.rsm.timers import Timers
from tidelog.security.authorizer import UNLIMITED, Access
from tidelog.security.client_quotas import Limits
from tidelog.wire import codec
from tidelog.wire.api import ApiKey, RequestHeader
from tidelog.wire.entities import Entity, has_field
from tidelog.wire.frames import FrameReader
from tidelog.wire.values import millis

FETCHES: Final = (ApiKey.FETCH, ApiKey.SHARE_FETCH)
"""APIs whose answers have records."""


def throttled(entity: Entity, throttle_ms: int) -> Entity:
    """An answer that says for how long its client must wait."""
    if not has_field(entity.__class__, "throttle_time"):
        return entity
    return replace(entity, throttle_time=millis(throttle_ms))


@dataclass(slots=True, eq=False)
class RequestContext:
    """One request that was read and not answered yet: what its handler knows of it, the way of its
    answer, and its slot in the connection's queue."""

    # Where the reply goes; the connection may be closed by the time of the reply.
    connection: "Connection"
    # API, version and correlation id, which the reply's encoding depends on.
    header: RequestHeader
    # Whether the slot is filled; a second fill is a bug.
    answered: bool = False
    # The framed reply; empty for a request that gets none (Produce with acks=0).
    chunks: Sequence[Chunk] = ()
    # Close the connection when this slot leaves (a failed Produce with acks=0).
    closes: bool = False
    # Completes an answer with what was denied (`broker/api/checks.py`).
    amend: Callable[[Entity], Entity] | None = None
    # For how long the client must wait after it, by its quotas; the answer says so.
    throttle_ms: int = 0
    # Whether checks of its API lie before it still: no answer may leave.
    unchecked: bool = False
    # Whether it is large: nothing behind it is handled before it is answered.
    is_large: bool = False

    @property
    def listener(self) -> str:
        """Name of the listener that the request came in by."""
        return self.connection.listener

    @property
    def principal(self) -> Principal:
        """Who asks."""
        return self.connection.principal

    @property
    def access(self) -> Access:
        """What may be done by who asks."""
        return self.connection.access

    @property
    def response_type(self) -> type:
        """The entity class of the answer."""
        response_type: type = codec.response_class(self.header.api_key, self.header.api_version)
        return response_type

    def answer(self, entity: Entity) -> None:
        """Answers with an entity."""
        if self.connection.open:
            try:
                framed = codec.encode_response(self.header, self.whole(entity))
            except UnwritableText:
                # A text of this client has grown too long on its way through the node. There is no
                # answer, and the connection ends, as it does for a request that is none.
                self.fill_and_close()
            else:
                self.fill([framed])

    def whole(self, entity: Entity) -> Entity:
        """An answer with what was denied, and with the pause."""
        whole = entity if self.amend is None else self.amend(entity)
        return throttled(whole, self.throttle_ms) if self.throttle_ms else whole

    def fill(self, chunks: list[Chunk]) -> None:
        """Answers with a framed reply."""
        self.connection.connections.fill(self, chunks)

    def fill_and_close(self) -> None:
        """Answers by closing the connection, once the replies before this one have left."""
        self.closes = True
        self.fill([])


@dataclass(slots=True, eq=False)
class Connection:
    """One accepted connection."""

    # All connections of the node, which send what is ready.
    connections: "Connections"
    # The driver's number for it (positive).
    connection_id: int
    # Name of the listener it came in by: decides which APIs are served.
    listener: str
    # For log lines and DescribeConfigs-like answers.
    peer_host: str
    # Bytes to frames.
    frames: FrameReader
    # Who is at the other end.
    principal: Principal = ANONYMOUS
    # Whether a delegation token has proved that.
    is_delegated: bool = False
    # Its way to a login; None where the listener asks for none.
    login: Login | None = None
    # What they may do; the router keeps it up to date.
    access: Access = UNLIMITED
    # Requests in order of arrival; the head leaves first.
    slots: deque[RequestContext] = field(default_factory=deque)
    # Requests that were read and not handled yet, copied out of the driver's buffer.
    backlog: deque[bytes] = field(default_factory=deque)
    # False once the driver reported it closed or we closed it.
    open: bool = True
    # Bytes of the requests in `backlog`.
    backlog_bytes: int = 0
    # Whether a fetch is under way: until its answer has left, nothing behind it is handled.
    is_fetching: bool = False
    # Bytes of a request whose batches are looked into, or that is large: it is alone under way.
    alone_bytes: int = 0
    # Bytes of records that the answer to its next fetch may have; doubled by each fetch: the answer
    # before has been taken when the next is handled.
    next_fetch_bytes: int = FIRST_FETCHED_BYTES
    # Whether the peer does not take what it was sent.
    is_stalled: bool = False
    # When bytes of requests last came.
    last_request: Instant = NEVER
    # Whether reading is paused: too many open slots, or requests left over.
    paused: bool = False
    # No request is handled before; None: it is not muted.
    muted_until: Instant | None = None
    # Whether it is closed then.
    is_refused: bool = False
    # The quotas that hold for its client, as they were last looked up.
    limits: Limits | None = None
    # The broker at the other end, once a heartbeat or registration named it; else None.
    broker_id: int | None = None

    @property
    def has_room(self) -> bool:
        """Whether another request may be handled now."""
        waits = self.is_fetching or self.is_stalled or self.muted_until is not None
        is_free = self.open and not waits and not self.alone_bytes
        return is_free and len(self.slots) < MAX_IN_FLIGHT_REQUESTS

    def take_fetch_bytes(self, *, shared: bool) -> int:
        """How many bytes of records the answer to a fetch that is handled now may have; `shared`:
        more connections wait than have a turn."""
        most = self.next_fetch_bytes
        self.next_fetch_bytes = min(2 * most, MAX_FETCHED_BYTES)
        return min(most, SHARED_FETCHED_BYTES) if shared else most


def _references_here() -> int:
    """How many references a context of a queue has while the queue is gone through."""
    for context in deque([object()]):
        return getrefcount(context)
    raise AssertionError("the queue is empty")


_REFERENCES_HERE: Final = _references_here()


class Connections:
    """All accepted connections of a node and their reply queues."""

    def __init__(
        self,
        effects: EffectQueue,
        max_request_bytes: int,
        max_idle_ms: int = -1,
        *,
        max_held_bytes: int = MAX_HELD_REQUEST_BYTES,
        of_nodes: Collection[str] = (),
    ) -> None:
        # Shared with the node; replies become `Send` effects here.
        self._effects = effects
        # `socket.request.max.bytes`.
        self._max_request_bytes = max_request_bytes
        # `connections.max.idle.ms`; negative is for ever.
        self._max_idle_ms = max_idle_ms
        # Listeners at which connections may be silent for ever.
        self._of_nodes = of_nodes
        # What is held of requests, by connection.
        self.held: Held[int] = Held(max_held_bytes)
        # Connections that are closed when they are silent, the one that was so for longest first.
        self._by_last_request: dict[int, Connection] = {}
        # Open connections by id.
        self._connections: dict[int, Connection] = {}
        # Those that have ended since that was asked for last.
        self._ended: list[int] = []
        # Connections that must log in and have not yet, the oldest first.
        self.unauthenticated: dict[int, Connection] = {}
        # Connections with a filled slot since the last flush, in order of filling.
        self._ready: dict[int, Connection] = {}
        # When muted connections are no longer, by their ids.
        self._mutes: Timers[int] = Timers()
        # Connections with a backlog and room, in the order of their turns.
        self._waiting: dict[int, Connection] = {}

    @classmethod
    def obeying(cls, effects: EffectQueue, config: NodeConfig) -> "Connections":
        """With the limits of a node's configuration."""
        queued = config.broker.max_queued_bytes
        return cls(
            effects,
            config.broker.max_request_bytes,
            config.broker.connections_max_idle_ms,
            max_held_bytes=queued if queued > 0 else MAX_HELD_REQUEST_BYTES,
            of_nodes={config.inter_broker_listener_name, *config.controller_listener_names},
        )

    def __len__(self) -> int:
        return len(self._connections)

    def get(self, connection_id: int) -> Connection | None:
        """The open connection with this id."""
        return self._connections.get(connection_id)

    def on_opened(
        self, connection_id: int, listener: str, peer_host: str, now: Instant
    ) -> Connection:
        """A peer connected."""
        assert connection_id not in self._connections, f"connection {connection_id} opened twice"
        frames = FrameReader(self._max_request_bytes)
        connection = Connection(self, connection_id, listener, peer_host, frames)
        self._connections[connection_id] = connection
        if listener not in self._of_nodes:
            self.touch(connection, now)
        return connection

    def on_closed(self, connection_id: int) -> Connection | None:
        """The peer is gone; replies still to come are dropped when they come."""
        connection = self._connections.pop(connection_id, None)
        if connection is not None:
            connection.open = False
            self._ended.append(connection_id)
            connection.slots.clear()
            connection.backlog.clear()
            self.held.note(connection_id, 0)
            self._ready.pop(connection_id, None)
            self._waiting.pop(connection_id, None)
            self._by_last_request.pop(connection_id, None)
            self._mutes.clear(connection_id)
            self.unauthenticated.pop(connection_id, None)
        return connection

    @property
    def has_ended(self) -> bool:
        """Whether `take_ended` has something."""
        return bool(self._ended)

    def take_ended(self) -> list[int]:
        """The connections that have ended since the last call, closed by the peer or here."""
        ended, self._ended = self._ended, []
        return ended

    # Idle connections -----------------------------------------------------------------------

    def touch(self, connection: Connection, now: Instant) -> None:
        """Requests have come."""
        connection.last_request = now
        if connection.open:
            self._by_last_request.pop(connection.connection_id, None)
            self._by_last_request[connection.connection_id] = connection

    def close_idle(self, now: Instant) -> None:
        """Closes connections that have sent nothing for too long and wait for no answer."""
        idle_at = self.idle_deadline()
        while idle_at is not None and idle_at <= now:
            connection = next(iter(self._by_last_request.values()))
            if connection.slots or connection.backlog or connection.muted_until is not None:
                self.touch(connection, now)
            else:
                self.drop(connection)
            idle_at = self.idle_deadline()

    def idle_deadline(self) -> Instant | None:
        """When `close_idle` has something to look at."""
        if self._max_idle_ms < 0 or not self._by_last_request:
            return None
        return Instant(next(iter(self._by_last_request.values())).last_request + self._max_idle_ms)

    def admit(self, connection: Connection, header: RequestHeader) -> RequestContext:
        """Takes a slot for a request that has just been read."""
        context = RequestContext(connection, header)
        connection.slots.append(context)
        connection.is_fetching = header.api_key in FETCHES
        if len(connection.slots) >= MAX_IN_FLIGHT_REQUESTS:
            self._pause(connection)
        return context

    def _pause(self, connection: Connection) -> None:
        if not connection.paused:
            connection.paused = True
            self._effects.emit(HoldReading(connection.connection_id, True))

    # What is held --------------------------------------------------------------------------

    def hold(self, connection: Connection, *, moved: bool) -> None:
        """Counts what is held of a connection's requests. `moved`: some of them have come as a
        whole, or were handled."""
        if not connection.open:
            return
        size_bytes = connection.frames.partial_bytes + connection.backlog_bytes
        size_bytes += connection.alone_bytes
        if size_bytes or connection.connection_id in self.held:
            self.held.note(connection.connection_id, size_bytes, moved=moved)

    def keep_large(self, context: RequestContext, size_bytes: int) -> None:
        """The request that was admitted last may be kept until its answer: a large one alone."""
        if size_bytes > LARGE_READ_BYTES and not context.answered and context.connection.open:
            context.is_large = True
            self.begin_alone(context.connection, size_bytes)

    def begin_alone(self, connection: Connection, size_bytes: int) -> None:
        """The request that was admitted last keeps so many bytes; nothing behind it is handled."""
        connection.alone_bytes = size_bytes

    def end_alone(self, connection: Connection) -> None:
        """What came behind such a request may be handled."""
        connection.alone_bytes = 0
        self.hold(connection, moved=True)
        self._resume(connection)

    def on_stalled(self, connection_id: int, stalled: bool) -> None:
        """The peer does not take what it was sent, or takes it again."""
        connection = self._connections.get(connection_id)
        if connection is None:
            return
        connection.is_stalled = stalled
        if stalled:
            self._waiting.pop(connection_id, None)
        else:
            self._resume(connection)

    # Muted connections ----------------------------------------------------------------------

    def mute(self, connection: Connection, until: Instant) -> None:
        """Handles no more requests of a connection before this instant; answers go on leaving."""
        if connection.open and (connection.muted_until is None or connection.muted_until < until):
            connection.muted_until = until
            self._waiting.pop(connection.connection_id, None)
            self._mutes.set(connection.connection_id, until)
            self._pause(connection)

    def unmute(self, now: Instant) -> None:
        """Takes up the connections whose pause is over; closes those that were refused."""
        while (connection_id := self._mutes.take_due(now)) is not None:
            connection = self._connections[connection_id]
            connection.muted_until = None
            if connection.is_refused:
                self.drop(connection)
            else:
                self._resume(connection)

    def unmute_deadline(self) -> Instant | None:
        """When `unmute` has something to do."""
        return self._mutes.next()

    # Turns ----------------------------------------------------------------------------------

    @property
    def has_turns(self) -> bool:
        """Whether requests are left over that could be handled at once."""
        return bool(self._waiting)

    def put_off(self, connection: Connection, frames: Sequence[Buffer]) -> None:
        """Keeps requests for the connection's later turns."""
        if not connection.open or not frames:
            return
        connection.backlog.extend(map(bytes, frames))
        connection.backlog_bytes += sum(map(len, frames))
        self._pause(connection)
        if connection.has_room:
            self._waiting[connection.connection_id] = connection

    def take_turns(self) -> list[Connection]:
        """The connections whose turn it is; each must be given back by `end_turn`."""
        turns = list(islice(self._waiting.values(), MAX_TURNS_PER_TICK))
        for connection in turns:
            del self._waiting[connection.connection_id]
        return turns

    def end_turn(self, connection: Connection, handled: int) -> None:
        """So many requests of the backlog were handled."""
        backlog = connection.backlog
        if not connection.open:
            return
        for _ in range(handled):
            connection.backlog_bytes -= len(backlog.popleft())
        self.hold(connection, moved=handled > 0)
        if backlog and connection.has_room:
            self._waiting[connection.connection_id] = connection
        self._resume(connection)

    def _resume(self, connection: Connection) -> None:
        """Goes on after a pause, if its reasons are gone: with the backlog, else by reading."""
        if not connection.paused or len(connection.slots) > MAX_IN_FLIGHT_REQUESTS // 2:
            return
        if not connection.has_room:
            return
        if connection.backlog:
            self._waiting[connection.connection_id] = connection
        else:
            connection.paused = False
            self._effects.emit(HoldReading(connection.connection_id, False))

    # Replies --------------------------------------------------------------------------------

    def fill(self, context: RequestContext, chunks: list[Chunk]) -> None:
        """Answers a request; it leaves at the next `flush` when all before it have left."""
        assert not context.answered, f"answered twice: {context.header}"
        assert not context.unchecked, f"AuthorizedFirst: {context.header} has passed no checks"
        context.answered = True
        connection = context.connection
        if not connection.open:
            return
        context.chunks = chunks
        if context.is_large:
            self.end_alone(connection)
        if connection.slots[0] is context:
            self._ready[connection.connection_id] = connection

    def drop(self, connection: Connection) -> None:
        """Closes a connection at once: its bytes are not the protocol."""
        if connection.open:
            self.on_closed(connection.connection_id)
            self._effects.emit(Close(connection.connection_id))

    def flush(self) -> None:
        """Sends what is ready: one `Send` a connection."""
        if not self._ready:
            return
        ready, self._ready = self._ready, {}
        for connection in ready.values():
            self._flush_one(connection)

    def _flush_one(self, connection: Connection) -> None:
        slots = connection.slots
        chunks: list[Chunk] = []
        closes = False
        while slots and slots[0].answered and not closes:
            context = slots.popleft()
            chunks.extend(context.chunks)
            closes = context.closes
        if not slots:
            # A fetch is the newest request.
            connection.is_fetching = False
        if chunks:
            self._effects.emit(Send(connection.connection_id, chunks))
        if closes:
            self.drop(connection)
        else:
            self._resume(connection)

    def check(self) -> None:
        """RepliesInOrder: a filled slot at a head is always queued for the next flush.
        NothingForgotten: a connection with a backlog gets a turn, waits for slots to leave, or is
        muted.
        EveryRequestIsAnsweredOrClosed: what is not answered is held by who can answer it."""
        self._mutes.check()
        self.held.check()
        for connection in self._connections.values():
            assert connection.open, f"closed connection {connection.connection_id} kept"
            is_muted = connection.muted_until is not None
            assert self._mutes.has(connection.connection_id) is is_muted, "a mute without an end"
            if is_muted:
                assert connection.paused, f"connection {connection.connection_id} is read on"
                is_next = connection.connection_id in self._waiting
                assert not is_next, f"connection {connection.connection_id} is muted and has a turn"
            if not connection.slots and not connection.backlog:
                continue
            for context in connection.slots:
                assert context.answered or getrefcount(context) > _REFERENCES_HERE, (
                    f"EveryRequestIsAnsweredOrClosed: {context.header} is forgotten"
                )
            open_slots = len(connection.slots)
            assert open_slots <= MAX_IN_FLIGHT_REQUESTS, f"{open_slots} slots"
            if connection.backlog:
                assert connection.paused, f"connection {connection.connection_id} is read on"
                assert connection.connection_id in self._waiting or (
                    not connection.has_room or open_slots > MAX_IN_FLIGHT_REQUESTS // 2
                ), f"connection {connection.connection_id} waits for ever"
            if connection.slots and connection.slots[0].answered:
                assert connection.connection_id in self._ready, "a filled head is not queued"

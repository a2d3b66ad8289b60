"""Connections that this node opens to other nodes, one per peer and purpose.

A channel sends length-prefixed requests in order and matches responses by order, as Kafka's
protocol promises. A request is never retried here: when the connection is refused, cut or timed
out, every request on it *fails*, and the component that sent it decides what to do. Separate
purposes have separate connections, because replies come in order and a parked fetch would hold up a
vote.

Where the listener of the peer asks for a login, a channel logs in before its first request, and
again before the session ends, while its requests wait. A login that the peer refuses fails them;
the peer is alive all the same.

A channel connects on demand: the first `send` of an idle channel asks for a connection, and
requests queue up behind it. A refused connect fails them at once, which is also how this node
learns that a peer's process is gone (`broker/failure_detector.py`).
"""

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from tidelog.env.effects import Chunk, Close, CloseReason, Connect, EffectQueue, Send
from tidelog.env.instant import Instant, earliest
from tidelog.env.known_deadline import KnownDeadline
from tidelog.errors import MalformedFrame
from tidelog.limits import MAX_REQUEST_BYTES
from tidelog.model import Endpoint
from tidelog.security.client_login import ClientLogin, LoginRefused
from tidelog.security.listener_logins import OwnLogin
from tidelog.wire import codec
from tidelog.wire.entities import Entity
from tidelog.wire.frames import FrameReader


class Purpose(Enum):
    """What a channel is for; one connection each."""

    # Members are the only ones of their kind. `Enum` would hash their names, in Python.
    __hash__ = object.__hash__

    QUORUM_FETCH = "quorum fetch"
    QUORUM_RPC = "quorum rpc"
    CONTROL = "control"
    REPLICA_FETCH = "replica fetch"
    MARKERS = "transaction markers"
    TRANSACTION_CHECK = "transaction check"
    SHARE_GROUPS = "share groups"
    SHARE_STATE = "share state"
    PROBE = "probe"


class ChannelKey(tuple[int, Purpose]):
    """(peer node id, purpose)."""

    __slots__ = ()


# Not frozen: one for each response, and it would take three times as long to make.
@dataclass(slots=True)
class Answered:
    """A response frame for the request that was sent with `token`."""

    peer_id: int
    purpose: Purpose
    token: Hashable
    frame: memoryview | bytes


@dataclass(frozen=True, slots=True)
class Failed:
    """The request with `token` got no answer and never will; it may or may not have been
    carried out."""

    peer_id: int
    purpose: Purpose
    token: Hashable
    reason: CloseReason


@dataclass(frozen=True, slots=True)
class PeerReached:
    """A connection to the peer was established."""

    peer_id: int


@dataclass(frozen=True, slots=True)
class PeerLost:
    """A connection to the peer was refused or cut."""

    peer_id: int
    reason: CloseReason


@dataclass(frozen=True, slots=True)
class PeerRefusedLogin:
    """The peer does not let this node in, or is not the one that it claims to be."""

    peer_id: int
    listener: str
    reason: str


PeerOutput = Answered | Failed | PeerReached | PeerLost | PeerRefusedLogin


@dataclass(slots=True)
class _InFlight:
    """A request that waits for its response."""

    token: Hashable
    # When it counts as failed, and the connection with it.
    deadline: Instant
    # The same, if the first byte of the answer has not come by then.
    first_byte_by: Instant


@dataclass(slots=True, eq=False)
class _Channel:
    """One connection to one peer."""

    # The peer and the purpose.
    key: ChannelKey
    # Where the peer is reached; a change takes effect with the next connection.
    endpoint: Endpoint
    # Our (negative) number of the current connection; 0 when there is none.
    connection_id: int = 0
    # Whether the current connection is up (else it is being made).
    established: bool = False
    # Bytes to response frames, new for each connection.
    frames: FrameReader = field(default_factory=lambda: FrameReader(MAX_REQUEST_BYTES))
    # Requests sent or about to be, in order.
    in_flight: deque[_InFlight] = field(default_factory=deque)
    # Chunks that wait for the connection, for its login or for the end of the tick.
    unsent: list[Chunk] = field(default_factory=list)
    # How this node logs in at the other end; None where no login is asked for.
    own: OwnLogin | None = None
    # The login under way, and how many answers to requests come before its own.
    login: ClientLogin | None = None
    answers_before_login: int = 0
    # How long the session lasts, and when it must be renewed; None: never, or there is none yet.
    session_ms: int = 0
    renew_at: Instant | None = None

    @property
    def times_out_at(self) -> Instant:
        """When the oldest request under way times out."""
        oldest = self.in_flight[0]
        return oldest.deadline if self.frames.partial_bytes else oldest.first_byte_by


class PeerChannels:
    """All outbound connections of a node."""

    def __init__(
        self, effects: EffectQueue, own_logins: Mapping[str, OwnLogin] | None = None
    ) -> None:
        # Shared with the node.
        self._effects = effects
        # How this node logs in, by the listener at the other end.
        self._own_logins = own_logins or {}
        # Channels whose session began in this tick.
        self._begun: list[_Channel] = []
        # Channels by peer and purpose, made on demand.
        self._channels: dict[ChannelKey, _Channel] = {}
        # The channel of each live outbound connection id.
        self._by_connection: dict[int, _Channel] = {}
        # The next outbound connection id; counts down from -1.
        self._next_connection_id = -1
        # Of the last request; only has to differ between requests of one connection.
        self._correlation_id = 0
        # What happened since the last `take_outputs`.
        self._outputs: list[PeerOutput] = []
        # Channels with unsent chunks on an established connection.
        self._dirty: dict[ChannelKey, _Channel] = {}
        # Kept until anything happens here.
        self._deadline = KnownDeadline(self._next_deadline)

    def set_address(self, peer_id: int, purpose: Purpose, endpoint: Endpoint) -> None:
        """Sets where a peer is reached; must be called before the first `send` to it."""
        key = ChannelKey((peer_id, purpose))
        channel = self._channels.get(key)
        if channel is None:
            self._channels[key] = _Channel(key, endpoint)
        else:
            channel.endpoint = endpoint

    def knows(self, peer_id: int, purpose: Purpose) -> bool:
        """Whether an address is known."""
        return ChannelKey((peer_id, purpose)) in self._channels

    def next_correlation_id(self) -> int:
        """The correlation id of the next request."""
        self._correlation_id = self._correlation_id + 1 & 0x7FFFFFFF
        return self._correlation_id

    def ask(
        self,
        peer_id: int,
        purpose: Purpose,
        entity: Entity,
        client_id: str,
        token: Hashable,
        deadline: Instant,
    ) -> None:
        """Encodes a request and sends it."""
        frame = codec.encode_request(entity, self.next_correlation_id(), client_id)
        self.send(peer_id, purpose, [frame], token, deadline)

    def send(
        self,
        peer_id: int,
        purpose: Purpose,
        chunks: list[Chunk],
        token: Hashable,
        deadline: Instant,
        first_byte_by: Instant | None = None,
    ) -> None:
        """Sends one framed request; ends in exactly one `Answered` or `Failed`.

        The whole answer must have come by `deadline`. Its first byte may be due earlier: a long
        answer takes time on a slow link, but no byte at all means that the stream is dead.
        """
        channel = self._channels[ChannelKey((peer_id, purpose))]
        channel.in_flight.append(_InFlight(token, deadline, first_byte_by or deadline))
        self._deadline.forget()
        channel.unsent.extend(chunks)
        if channel.connection_id == 0:
            self._connect(channel)
        elif channel.established:
            self._dirty[channel.key] = channel

    def probe(self, peer_id: int) -> bool:
        """Whether the watch connection to the peer is up. If there is none, makes one; its outcome
        comes as `PeerReached` or `PeerLost`. It carries no requests and stays open: its end is the
        first sign of the peer's death."""
        channel = self._channels[ChannelKey((peer_id, Purpose.PROBE))]
        if channel.connection_id == 0:
            self._connect(channel)
        return channel.established

    def give_up(self, peer_id: int, purpose: Purpose) -> None:
        """Fails the requests under way on a channel and closes it, because their answers have
        become worthless. The failure detector learns nothing of it."""
        channel = self._channels[ChannelKey((peer_id, purpose))]
        if channel.connection_id != 0:
            self._close(channel)
            self._fail_requests(channel, CloseReason.TIMEOUT)

    def on_connected(self, connection_id: int) -> None:
        """The driver made the connection."""
        channel = self._by_connection.get(connection_id)
        if channel is None:
            return
        channel.established = True
        self._outputs.append(PeerReached(channel.key[0]))
        if channel.own is not None:
            self._log_in(channel, channel.own)
        elif channel.unsent:
            self._dirty[channel.key] = channel

    def on_closed(self, connection_id: int, reason: CloseReason) -> None:
        """The connection is gone or could not be made."""
        channel = self._by_connection.pop(connection_id, None)
        self._deadline.forget()
        if channel is not None:
            self._fail(channel, reason)

    def on_received(self, connection_id: int, data: bytes | bytearray | memoryview) -> None:
        """Response bytes arrived."""
        channel = self._by_connection.get(connection_id)
        if channel is None:
            return
        peer_id, purpose = channel.key
        self._deadline.forget()
        try:
            for frame in channel.frames.feed(data):
                if channel.login is not None:
                    if not channel.answers_before_login:
                        self._on_login_answer(channel, channel.login, frame)
                        continue
                    channel.answers_before_login -= 1
                if not channel.in_flight:
                    raise MalformedFrame("a response without a request")
                request = channel.in_flight.popleft()
                self._outputs.append(Answered(peer_id, purpose, request.token, frame))
        except LoginRefused as refused:
            self._outputs.append(PeerRefusedLogin(peer_id, channel.endpoint.listener, str(refused)))
            self._close(channel)
            self._fail_requests(channel, CloseReason.ERROR)
        except MalformedFrame:
            self._abandon(channel, CloseReason.ERROR)

    def _log_in(self, channel: _Channel, own: OwnLogin) -> None:
        """Begins a login; what is sent from now on waits for its end."""
        channel.login = ClientLogin(own, f"{channel.key[1].value}")
        channel.renew_at = None
        self._effects.emit(Send(channel.connection_id, [channel.login.start()]))

    def _on_login_answer(self, channel: _Channel, login: ClientLogin, frame: memoryview) -> None:
        request = login.on_frame(frame)
        if request is not None:
            self._effects.emit(Send(channel.connection_id, [request]))
            return
        channel.login = None
        if login.session_ms:
            channel.session_ms = login.session_ms
            self._begun.append(channel)
        if channel.unsent:
            self._dirty[channel.key] = channel

    def flush(self) -> None:
        """Sends what was queued in this tick: one `Send` a connection."""
        if not self._dirty:
            return
        dirty, self._dirty = self._dirty, {}
        for channel in dirty.values():
            if channel.established and channel.unsent and channel.login is None:
                chunks, channel.unsent = channel.unsent, []
                self._effects.emit(Send(channel.connection_id, chunks))

    def wake(self, now: Instant) -> None:
        """Closes connections whose oldest request has timed out, and renews sessions."""
        for channel in self._begun:
            # Each connection within 85 to 95 % of its session, not all at once.
            part = 85 + -channel.connection_id % 11
            channel.renew_at = Instant(now + channel.session_ms * part // 100)
            self._deadline.forget()
        self._begun.clear()
        deadline = self.deadline()
        if deadline is None or deadline > now:
            return
        for channel in list(self._by_connection.values()):
            if channel.in_flight and channel.times_out_at <= now:
                self._abandon(channel, CloseReason.TIMEOUT)
            elif channel.renew_at is not None and channel.renew_at <= now:
                self._renew(channel)

    def _renew(self, channel: _Channel) -> None:
        """Logs in again, behind the requests that were sent."""
        assert channel.own is not None, f"{channel.key} has a session without a login"
        if channel.unsent:
            chunks, channel.unsent = channel.unsent, []
            self._effects.emit(Send(channel.connection_id, chunks))
        channel.answers_before_login = len(channel.in_flight)
        self._deadline.forget()
        self._log_in(channel, channel.own)

    def deadline(self) -> Instant | None:
        """When the next request times out."""
        return self._deadline.get()

    def _next_deadline(self) -> Instant | None:
        due = None
        for channel in self._by_connection.values():
            if channel.in_flight:
                due = earliest(due, channel.times_out_at)
            due = earliest(due, channel.renew_at)
        return due

    def take_outputs(self) -> list[PeerOutput]:
        """What happened since the last call, in order."""
        outputs, self._outputs = self._outputs, []
        return outputs

    @property
    def has_outputs(self) -> bool:
        """Whether `take_outputs` has something."""
        return bool(self._outputs)

    def check(self) -> None:
        """Connection ids and channels refer to each other."""
        for connection_id, channel in self._by_connection.items():
            assert channel.connection_id == connection_id, f"{channel.key} lost its connection"
        for channel in self._channels.values():
            if channel.connection_id == 0:
                assert not channel.in_flight, f"{channel.key} has requests and no connection"
        self._deadline.check()

    def _connect(self, channel: _Channel) -> None:
        channel.connection_id = self._next_connection_id
        channel.established = False
        channel.own = self._own_logins.get(channel.endpoint.listener)
        channel.login = None
        channel.answers_before_login = 0
        channel.renew_at = None
        channel.frames = FrameReader(MAX_REQUEST_BYTES)
        self._next_connection_id -= 1
        self._by_connection[channel.connection_id] = channel
        self._deadline.forget()
        to = channel.endpoint
        self._effects.emit(Connect(channel.connection_id, to.host, to.port, to.listener))

    def _abandon(self, channel: _Channel, reason: CloseReason) -> None:
        self._close(channel)
        self._fail(channel, reason)

    def _close(self, channel: _Channel) -> None:
        self._by_connection.pop(channel.connection_id, None)
        self._deadline.forget()
        self._effects.emit(Close(channel.connection_id))

    def _fail(self, channel: _Channel, reason: CloseReason) -> None:
        self._outputs.append(PeerLost(channel.key[0], reason))
        self._fail_requests(channel, reason)

    def _fail_requests(self, channel: _Channel, reason: CloseReason) -> None:
        peer_id, purpose = channel.key
        channel.connection_id = 0
        channel.established = False
        channel.login = channel.renew_at = None
        channel.unsent = []
        self._dirty.pop(channel.key, None)
        while channel.in_flight:
            token = channel.in_flight.popleft().token
            self._outputs.append(Failed(peer_id, purpose, token, reason))

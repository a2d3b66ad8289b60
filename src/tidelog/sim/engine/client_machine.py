"""The machine on which all simulated clients run, and their connections."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tidelog.env.effects import CloseReason
from tidelog.limits import MAX_REQUEST_BYTES
from tidelog.security.client_login import ClientLogin, LoginRefused
from tidelog.security.listener_logins import OwnLogin
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.network import Network, Pipe
from tidelog.sim.engine.timeline import Timeline
from tidelog.wire.frames import FrameReader

CLIENT: Final = "client"
BROKER_LISTENER: Final = "PLAINTEXT"
CONTROLLER_LISTENER: Final = "CONTROLLER"

Done = Callable[[bytes | None], None]


@dataclass(slots=True, eq=False)
class ClientMachine:
    """It is a `network.Machine`."""

    timeline: Timeline
    network: Network
    name: str = CLIENT
    ends: dict[int, Pipe] = field(default_factory=dict)
    powered: bool = True
    listening: bool = False
    # Who gets the events of a connection.
    sessions: dict[int, "Session"] = field(default_factory=dict)
    # How users log in, by name; empty where no login is asked for.
    logins: dict[str, OwnLogin] = field(default_factory=dict)
    # Counts down: clients open connections, they accept none.
    next_id: int = -1

    def open(self, session: "Session", target: Host, listener: str) -> int:
        """Connects a session to a listener of a node; returns the connection id."""
        connection_id = self.next_id
        self.next_id -= 1
        self.sessions[connection_id] = session
        port = next(e.port for e in target.config.listeners if e.listener == listener)

        def done(up: bool) -> None:
            if up:
                session.on_connected()
            else:
                self.on_closed(connection_id, CloseReason.REFUSED)

        self.network.connect(
            (CLIENT, connection_id),
            (target.name, port),
            lambda: connection_id in self.sessions,
            done,
        )
        return connection_id

    def send(self, connection_id: int, data: bytes) -> None:
        """Sends a client's bytes."""
        end = self.ends.get(connection_id)
        if end is not None:
            self.network.send(end, data)

    def close(self, connection_id: int) -> None:
        """Closes a client's end; its session gets no further events."""
        self.sessions.pop(connection_id, None)
        end = self.ends.pop(connection_id, None)
        if end is not None:
            self.network.close(end)

    def is_whole(self, connection_id: int) -> bool:
        """Whether the stream is there at both ends."""
        end = self.ends.get(connection_id)
        return end is not None and self.network.is_open(end)

    def new_connection_id(self) -> int:
        """Clients are not connected to."""
        raise AssertionError("a client does not listen")

    def on_opened(self, connection_id: int, peer: str, port: int) -> None:
        """Clients are not connected to."""
        raise AssertionError("a client does not listen")

    def on_bytes(self, connection_id: int, data: bytes) -> None:
        """Bytes for the client."""
        self.sessions[connection_id].on_bytes(data)

    def on_closed(self, connection_id: int, reason: CloseReason) -> None:
        """The stream of the client ended."""
        self.sessions.pop(connection_id).on_closed()


class Session:
    """One connection of a client, made at once, and not used again after it closed: requests out,
    answers in the same order, or nothing.

    Every request ends in exactly one call of its `done`: with the response frame, or with `None`
    when the connection is refused, lost, timed out or given up.

    It logs in first, where its user has a login. Three of four sessions that end are renewed in
    time; the others do not know better, and the node closes their connection.
    """

    def __init__(
        self,
        machine: ClientMachine,
        target: Host,
        *,
        listener: str = BROKER_LISTENER,
        timeout_ms: int | None = None,
        user: str = CLIENT,
    ) -> None:
        # Connected counts from the end of the login.
        self.closed = self.connected = False
        self._machine = machine
        self._target = target.name
        # How long an answer may take; `None` for ever.
        self._timeout_ms = timeout_ms
        self._frames = FrameReader(MAX_REQUEST_BYTES)
        # Requests that wait for the connection.
        self._unsent: list[bytes] = []
        # (number, done) of the requests without an answer, in order.
        self._waiting: deque[tuple[int, Done]] = deque()
        self._request_count = 0
        # Who logs in; the login under way, and how many answers to requests come before its own.
        self._user = user
        self._login: ClientLogin | None = None
        self._answers_before_login = 0
        self.connection_id = machine.open(self, target, listener)

    @property
    def correlation_id(self) -> int:
        """For the next request."""
        return self._request_count + 1

    @property
    def is_whole(self) -> bool:
        """Whether the node has the connection, too: it may learn of its end long before."""
        return self._machine.is_whole(self.connection_id)

    def request(self, frame: bytes, done: Done, *, answered: bool = True) -> None:
        """Sends a framed request; with `answered` false nothing is expected back."""
        if self.closed:
            done(None)
            return
        if self.connected:
            self._machine.send(self.connection_id, frame)
        else:
            self._unsent.append(frame)
        if not answered:
            return
        self._request_count += 1
        number = self._request_count
        self._waiting.append((number, done))
        if self._timeout_ms is not None:
            self._machine.timeline.at(self._timeout_ms, lambda: self._expire(number))

    def _expire(self, number: int) -> None:
        if self._waiting and self._waiting[0][0] <= number:
            self.close()

    def close(self) -> None:
        """Gives up: every request under way ends without an answer."""
        if not self.closed:
            self._machine.close(self.connection_id)
            self.on_closed()

    def on_connected(self) -> None:
        """Logs in where that is asked for; then sends what waited."""
        if self._user in self._machine.logins:
            self._log_in()
        else:
            self._send_waiting()

    def _log_in(self) -> None:
        """Begins a login behind the requests that were sent; others wait for its end."""
        self._answers_before_login = len(self._waiting) if self.connected else 0
        self.connected = False
        self._login = ClientLogin(self._machine.logins[self._user], CLIENT)
        self._machine.send(self.connection_id, self._login.start())

    def _on_login_answer(self, login: ClientLogin, frame: memoryview) -> None:
        try:
            request = login.on_frame(frame)
        except LoginRefused:
            self.close()
            return
        if request is not None:
            self._machine.send(self.connection_id, request)
            return
        self._login = None
        if login.session_ms and self.connection_id % 4:
            part = 85 + self.connection_id % 11
            self._machine.timeline.at(login.session_ms * part // 100, self._renew)
        self._send_waiting()

    def _renew(self) -> None:
        if not self.closed:
            self._log_in()

    def _send_waiting(self) -> None:
        self.connected = True
        for frame in self._unsent:
            self._machine.send(self.connection_id, frame)
        self._unsent = []

    def on_closed(self) -> None:
        """The connection is gone."""
        self.closed = True
        waiting, self._waiting = self._waiting, deque()
        for _, done in waiting:
            done(None)

    def on_bytes(self, data: bytes) -> None:
        """Hands each response to the oldest request."""
        for frame in self._frames.feed(data):
            if self.closed:
                return
            if self._login is not None:
                if not self._answers_before_login:
                    self._on_login_answer(self._login, frame)
                    continue
                self._answers_before_login -= 1
            assert self._waiting, f"ResponseOrder: {self._target} answered without a request"
            _, done = self._waiting.popleft()
            done(bytes(frame))

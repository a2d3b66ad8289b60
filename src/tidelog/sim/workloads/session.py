"""One connection of a simulated client: requests out, answers in the same order, or nothing.

Every request ends in exactly one call of its `done`: with the response frame, or with `None` when
the connection is refused, lost, timed out or given up.
"""

from collections import deque
from collections.abc import Callable

from tidelog.limits import MAX_REQUEST_BYTES
from tidelog.sim.engine.client_machine import ClientPort
from tidelog.sim.engine.world import World
from tidelog.wire.frames import FrameReader

Done = Callable[[bytes | None], None]


class Session(ClientPort):
    """A connection to one node, made at once; not used again after it closed."""

    def __init__(self, world: World, node_id: int, timeout_ms: int) -> None:
        self.node_id = node_id
        self.closed = False
        self._world = world
        self._timeout_ms = timeout_ms
        self._frames = FrameReader(MAX_REQUEST_BYTES)
        self._connected = False
        # Requests that wait for the connection.
        self._unsent: list[bytes] = []
        # (number, done) of the requests without an answer, in order.
        self._waiting: deque[tuple[int, Done]] = deque()
        self._request_count = 0
        self.connection_id = world.clients.open(self, world.hosts[node_id])

    @property
    def correlation_id(self) -> int:
        """For the next request."""
        return self._request_count + 1

    @property
    def idle(self) -> bool:
        """Whether no request waits for an answer."""
        return not self._waiting

    def request(self, frame: bytes, done: Done, *, answered: bool = True) -> None:
        """Sends a framed request; with `answered` false nothing is expected back."""
        if self.closed:
            done(None)
            return
        if self._connected:
            self._world.clients.send(self.connection_id, frame)
        else:
            self._unsent.append(frame)
        if not answered:
            return
        self._request_count += 1
        number = self._request_count
        self._waiting.append((number, done))
        self._world.at(self._timeout_ms, lambda: self._expire(number))

    def _expire(self, number: int) -> None:
        if self._waiting and self._waiting[0][0] <= number:
            self.close()

    def close(self) -> None:
        """Gives up: every request under way ends without an answer."""
        if not self.closed:
            self._world.clients.close(self.connection_id)
            self._end()

    def _end(self) -> None:
        self.closed = True
        waiting, self._waiting = self._waiting, deque()
        for _, done in waiting:
            done(None)

    def on_connected(self, connection_id: int) -> None:
        """Sends what waited."""
        self._connected = True
        for frame in self._unsent:
            self._world.clients.send(connection_id, frame)
        self._unsent = []

    def on_closed(self, connection_id: int) -> None:
        """The peer closed, or refused."""
        if not self.closed:
            self._end()

    def on_bytes(self, connection_id: int, data: bytes) -> None:
        """Hands each response to the oldest request."""
        for frame in self._frames.feed(data):
            if self.closed:
                return
            assert self._waiting, f"ResponseOrder: node {self.node_id} answered without a request"
            _, done = self._waiting.popleft()
            done(bytes(frame))

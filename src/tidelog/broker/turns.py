"""Requests of accepted connections, handled in turns.

Bytes become frames, and frames go to the router. In the tick of a read at most
`limits.MAX_REQUESTS_PER_TURN` requests of a connection are handled, and fewer when they make files
or have to be inflated: the one that spends the work of the turn is the connection's last
(`replication/turn_work.py`). The rest waits in `connections` and gets its turns in the ticks that
follow at once. So no client keeps the node from its other work, nor do several together: of the
connections that spent the work of a turn, each waits until one comes in which it is not spent. So
do the fetches of clients. Those of brokers do not stand in that line: behind fifty clients that
fetch megabytes, a record was acknowledged after a quarter of a second.

Bytes that are not frames close the connection. The failure detector learns when bytes come from
another broker, and when its connection ends.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from tidelog.broker.connections import FETCHES, Connection, Connections
from tidelog.broker.failure_detector import FailureDetector
from tidelog.broker.router import Router
from tidelog.env.disk import Buffer
from tidelog.env.effects import CloseReason
from tidelog.env.instant import Instant, earliest
from tidelog.env.trace import Trace
from tidelog.errors import MalformedFrame
from tidelog.limits import MAX_REQUESTS_PER_TURN
from tidelog.replication.turn_work import TurnWork

_FETCHES: Final = tuple(key.to_bytes(2) for key in FETCHES)


def _is_fetch(frame: Buffer) -> bool:
    return bytes(frame[:2]) in _FETCHES


class Turns:
    """The turns of all accepted connections of a node."""

    def __init__(
        self,
        connections: Connections,
        router: Router,
        detector: FailureDetector,
        trace: Trace,
        *,
        work: TurnWork,
        node_id: int,
        now: Instant,
    ) -> None:
        self._connections = connections
        self._router = router
        self._detector = detector
        self._trace = trace
        # What this turn may still do of what takes long.
        self._work = work
        # Connections whose last requests spent it; what else they send waits for the tick.
        self._resting: set[Connection] = set()
        # This node: the end of a connection to itself is not a failure.
        self._node_id = node_id
        # The last tick; requests left over ask for another one at once.
        self._woken_at = now

    def on_received(
        self, connection_id: int, data: bytes | bytearray | memoryview, now: Instant
    ) -> None:
        """Bytes arrived; a malformed frame closes the connection."""
        connection = self._connections.get(connection_id)
        if connection is None:
            return
        try:
            frames = connection.frames.feed(data)
        except MalformedFrame as fault:
            subject = f"connection {connection_id}"
            self._trace.warn(
                subject, "on_received", "closed", fault.message, peer=connection.peer_host
            )
            self._connections.drop(connection)
            return
        if frames:
            if connection.login is None or connection.login.is_ready:
                self._connections.touch(connection, now)
            self._work.on_input()
        handled = 0
        if not connection.backlog and connection not in self._resting:
            handled = self._serve(connection, frames[:MAX_REQUESTS_PER_TURN], now)
        if handled < len(frames):
            self._connections.put_off(connection, frames[handled:])
        self._connections.hold(connection, moved=bool(frames))
        for slowest_id in self._connections.held.take_excess():
            self._drop_slowest(slowest_id)
        if connection.broker_id is not None:
            self._detector.on_reached(connection.broker_id)

    def _drop_slowest(self, connection_id: int) -> None:
        connection = self._connections.get(connection_id)
        assert connection is not None, f"connection {connection_id} is closed and holds requests"
        subject, reason = f"connection {connection_id}", "requests of all clients take too much"
        self._trace.warn(subject, "on_received", "closed", reason, peer=connection.peer_host)
        self._connections.drop(connection)

    def on_closed(self, connection_id: int, reason: CloseReason, now: Instant) -> None:
        """The connection is gone."""
        connection = self._connections.on_closed(connection_id)
        if connection is not None and connection.broker_id not in (None, self._node_id):
            assert connection.broker_id is not None
            self._detector.on_connection_lost(connection.broker_id, reason, now)

    def wake(self, now: Instant) -> None:
        """Closes idle connections and takes up those that were muted for long enough, then gives a
        turn to those with requests left over."""
        self._woken_at = now
        self._connections.close_idle(now)
        self._connections.unmute(now)
        self._resting = {each for each in self._resting if each.open}
        if not self._connections.has_turns:
            return
        self._work.on_input()
        served: list[tuple[Connection, int]] = []
        for connection in self._connections.take_turns():
            handled = 0
            # The first one goes in any case, so that each is the first at some time.
            if not (served and self._work.is_spent and connection in self._resting):
                turn = list(islice(connection.backlog, MAX_REQUESTS_PER_TURN))
                handled = self._serve(connection, turn, now)
            if handled:
                served.append((connection, handled))
            else:
                # Before those that were served.
                self._connections.end_turn(connection, 0)
        for connection, handled in served:
            self._connections.end_turn(connection, handled)

    def _serve(self, connection: Connection, frames: Sequence[Buffer], now: Instant) -> int:
        """Handles requests of one connection; returns how many. The node stops when
        `MAX_IN_FLIGHT_REQUESTS` of the connection wait for their answers, and after a request that
        used up the work of the turn. Of the requests of other connections only fetches of clients
        wait then: most take no work, and records that are not acknowledged wait for the fetches of
        brokers."""
        work, handled = self._work, 0
        waits_to_fetch = connection.broker_id is None
        for frame in frames:
            if not connection.has_room:
                break
            if waits_to_fetch and work.is_spent and _is_fetch(frame):
                break
            left = work.left
            self._router.on_frame(connection, memoryview(frame), now)
            handled += 1
            if work.left < left and work.is_spent:
                self._resting.add(connection)
                return handled
        if handled:
            self._resting.discard(connection)
        return handled

    def deadline(self) -> Instant | None:
        """At once while requests are left over, else when a connection may be idle for too long,
        or has been muted for long enough."""
        return earliest(
            self._woken_at if self._connections.has_turns else None,
            self._connections.idle_deadline(),
            self._connections.unmute_deadline(),
        )

"""The production driver of a sans-IO core: one uvloop loop, one tick per iteration.

Life of an iteration: libuv delivers everything that arrived (reads, closes, finished flushes,
timers) as inputs to the core; the first of them asks for a tick, which runs after all of them, or
when they have taken `ENOUGH_INPUT_MS`:
`wake(now)` lets the core finish the tick (coalesced wake-ups, due timers), `take_effects()` is
carried out in order, one timer is armed for `deadline()`, log lines are written.

What may go wrong
- The core raises: a bug. The traceback is logged and the loop stops with exit code 70; the
  missing clean-shutdown marker makes the next start recover.
- A peer misbehaves: the core closes the connection, or the write bound does
  (`connection.Connection`).
- The disk fails: `FlushFailed` goes to the core, which takes the directory offline.

The simulator is the other driver of the same core; nothing here may decide anything that a
replay would need.
"""

import asyncio
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.env import effects
from tidelog.env.disk import Disk, File, OfflineDisk
from tidelog.env.held import Held
from tidelog.env.instant import Instant
from tidelog.env.trace import Level
from tidelog.limits import CLOSE_LINGER_MS, ENOUGH_INPUT_MS, MAX_UNSENT_BYTES
from tidelog.runtime import clock
from tidelog.runtime.computing import Computing
from tidelog.runtime.connection import Connection
from tidelog.runtime.core import STEPS, Core
from tidelog.runtime.dial import dial
from tidelog.runtime.event_file import EventFile
from tidelog.runtime.flusher import DiskAnswer, Flusher
from tidelog.runtime.handshakes import Handshakes
from tidelog.runtime.log_lines import LogLines
from tidelog.runtime.network import Network
from tidelog.runtime.rests import Rests
from tidelog.runtime.tls import TlsTransport
from tidelog.runtime.turn_times import TurnTimes

if TYPE_CHECKING:
    from tidelog.runtime.refreshing import Fetched, Refreshing, Source

EXIT_BUG: Final = 70
"""Exit code after a bug in the core (EX_SOFTWARE)."""

EXIT_FORCED: Final = 1
"""Exit code when the operator did not wait for the clean stop."""

EXIT_FLUSHES_FAILED: Final = 1
"""Exit code of a clean stop whose last writes did not become durable."""

_ENOUGH_INPUT_NS: Final = ENOUGH_INPUT_MS * 1_000_000
_WALL_CHECK_S: Final = 1.0
_STORE_CHECK_S: Final = 10.0
_LINGER_S: Final = 0.5
_FLUSH_TIMEOUT_S: Final = 10.0


@dataclass(slots=True)
class Counters:
    """What the driver has done since the start; read by the metrics endpoint."""

    ticks: int = 0
    received_bytes: int = 0
    sent_chunks: int = 0
    accepted: int = 0
    refused: int = 0
    flushes: int = 0
    flush_failures: int = 0


class Driver:
    """Runs one core on one loop until it exits."""

    def __init__(
        self,
        core: Core,
        disks: Sequence[Disk | OfflineDisk],
        log: LogLines,
        *,
        loop: asyncio.AbstractEventLoop,
        network: Network,
        events: EventFile | None = None,
    ) -> None:
        self._core = core
        self._log = log
        # The node's events, where they are kept; written once a tick.
        self._events = events
        self._loop = loop
        # How connections are made and which are taken.
        self._network = network
        # TLS handshakes under way.
        self.handshakes = Handshakes(loop)
        # Connections that have brought much.
        self.rests = Rests(loop)
        # By the number of their disks: one that hangs or has failed does not keep the others.
        self._flushers = dict(self._make_flushers(disks))
        self._computing = Computing(
            answer=partial(self._from_thread, self._receive),
            fail=partial(self._from_thread, self._stop_for_bug),
        )
        self.turns = TurnTimes(core.steps, warn=(events or log).emit)
        self._wall = clock.WallOffset()
        # Fetches keys and tokens; `None` where no listener has any.
        self._refreshing: Refreshing | None = None
        self.counters = Counters()
        # What peers do not take.
        self.unsent: Held[Connection] = Held(MAX_UNSENT_BYTES)
        # The core counts.
        self.client_figures = core.client_figures
        # Connections that the core may name, by its id for them.
        self._connections: dict[int, Connection] = {}
        # Connections that the core closed and that still send what was queued.
        self._lingering: set[Connection] = set()
        # Dials under way by connection id; a core that closes one before it is there cancels it.
        self._dials: dict[int, asyncio.Task[None]] = {}
        # Listening sockets.
        self._servers: list[asyncio.Server] = []
        # The id of the next accepted connection.
        self._next_id = 1
        # Whether a tick is due in this iteration.
        self._tick_due = False
        # The armed timer and the instant it was armed for; it may be earlier than the core's
        # deadline, never later.
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = Instant(0)
        # Set once the core has exited or failed: nothing reaches it any more.
        self._stopped = False
        self._stop_requests = 0
        self.exit_code = 0
        self.exit_message = ""
        self._carry_out = self._make_handlers()

    def _make_handlers(self) -> dict[type, Callable[[Any], None]]:
        """What carries an effect out, by its type."""
        return {
            effects.Send: self._send,
            effects.Connect: self._connect,
            effects.Close: self._close,
            effects.HoldReading: self._hold_reading,
            effects.Flush: self._flushers[0].submit,
            effects.Replace: self._flushers[0].submit,
            effects.OnDisk: self._on_disk,
            effects.RefreshKeys: self._refresh_keys,
            effects.CheckStores: self._check_new_stores,
            effects.Compute: self._computing.submit,
            effects.UseStores: lambda effect: self._report(self._network.tls.use(effect.settings)),
            effects.Exit: self._exit,
        }

    def _make_flushers(self, disks: Sequence[Disk | OfflineDisk]) -> Iterator[tuple[int, Flusher]]:
        """One for each disk that is there, with its number."""
        for number, disk in enumerate(disks):
            if not isinstance(disk, OfflineDisk):
                yield (
                    number,
                    Flusher(
                        disk,
                        answer=partial(self._from_thread, self._on_disk_answers),
                        fail=partial(self._from_thread, self._stop_for_bug),
                        number=number,
                    ),
                )

    # Life -------------------------------------------------------------------------------------

    async def listen(self, listener: str, sock: socket.socket, backlog: int) -> None:
        """Accepts connections on a bound socket for a listener."""
        factory = partial(self._accept, listener)
        self._servers.append(await self._loop.create_server(factory, sock=sock, backlog=backlog))

    def run(self) -> int:
        """Runs until the core exits; returns the process's exit code."""
        self._loop.call_soon(self._check_wall_clock)
        self._loop.call_later(_STORE_CHECK_S, self._check_stores)
        self._request_tick()
        self.turns.watch_collections()
        self._loop.run_forever()
        self.turns.unwatch_collections()
        for number, flusher in self._flushers.items():
            if not flusher.close(_FLUSH_TIMEOUT_S) and not number:
                self._fail_last_flushes("they did not end in time")
            elif flusher.failure is not None and not number:
                self._fail_last_flushes(flusher.failure)
        self._log.end_bursts()
        self._log.flush()
        if self._events is not None:
            self._events.write_all()
        return self.exit_code

    @property
    def under_replicated(self) -> int:
        """How many partitions the core leads whose ISR is smaller than their replicas."""
        return self._core.under_replicated

    @property
    def connection_count(self) -> int:
        """Open connections, those included that only send what is left."""
        return len(self._connections) + len(self._lingering)

    def request_stop(self) -> None:
        """SIGTERM or SIGINT: a clean stop; asked for a second time, a stop at once."""
        self._stop_requests += 1
        if self._stop_requests == 1:
            self._receive(effects.StopRequested())
        elif not self._stopped:
            self._log.line(Level.WARN, "runtime: stopped at once (second signal)")
            self._finish(EXIT_FORCED, "")

    def sync_later(self, file: File, disk: int = 0) -> None:
        """Has a file synced without an answer; a failure reaches the core like any other."""
        self._flushers[disk].submit(effects.Flush(file, None))

    def keep_fresh(self, source: "Source", first: "Fetched") -> None:
        """Gives the core keys or a token, and newer ones later."""
        if self._refreshing is None:
            # It brings a client of the web along, which most nodes do not need.
            from tidelog.runtime.refreshing import Refreshing

            self._refreshing = Refreshing(self._loop, self._log, self._receive)
        self._refreshing.begin(source, first)

    def _refresh_keys(self, effect: effects.RefreshKeys) -> None:
        assert self._refreshing is not None, "keys that are not fetched from anywhere"
        self._refreshing.refresh(effect.url)

    def _fail_last_flushes(self, reason: str) -> None:
        """The core has exited and receives nothing more, so the exit code reports it."""
        self._log.line(Level.ERROR, f"runtime: the last flushes failed ({reason})")
        self.exit_code = self.exit_code or EXIT_FLUSHES_FAILED

    # Inputs -----------------------------------------------------------------------------------

    def _receive(self, event: effects.Input) -> None:
        if self._stopped:
            return
        at_ns = self.turns.begin(STEPS[type(event)])
        try:
            self._core.receive(event, Instant(at_ns // 1_000_000))
        except BaseException as error:
            self._stop_for_bug(error)
        else:
            self._request_tick()

    def _request_tick(self) -> None:
        if not self._tick_due and not self._stopped:
            self._tick_due = True
            self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        if not self._tick_due:
            # A turn that was long has ended before all had been delivered.
            return
        self._tick_due = False
        self.rests.end_turn()
        if self._stopped:
            return
        self.counters.ticks += 1
        now = Instant(self.turns.begin("tick") // 1_000_000)
        try:
            if self.turns.spent:
                self._core.receive(effects.Spent(self.turns.take_spent()), now)
            self._core.wake(now)
            pending = self._core.take_effects()
            self.turns.begin("effects")
            for effect in pending:
                self._carry_out[type(effect)](effect)
            self._arm(self._core.deadline())
        except BaseException as error:
            self._stop_for_bug(error)
        self._flush_lines()
        self.turns.end_turn()
        self.turns.collect_if_due()

    def _flush_lines(self) -> None:
        self._log.flush()
        if self._events is not None:
            self._events.flush()
            if self._events.has_waiting:
                self._request_tick()

    def _arm(self, deadline: Instant | None) -> None:
        if deadline is None or (self._timer is not None and self._timer_at <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        # From now, and not from the beginning of the turn, which may have lasted longer.
        delay_ns = deadline * 1_000_000 - self.turns.clock()
        self._timer = self._loop.call_later(max(0, delay_ns) / 1e9, self._on_timer)
        self._timer_at = deadline

    def _on_timer(self) -> None:
        self._timer = None
        self._request_tick()

    def _check_wall_clock(self) -> None:
        event = self._wall.observe()
        if event is not None:
            self._receive(event)
        # A burst may be over while the node has nothing to do.
        self._log.flush()
        if not self._stopped:
            self._loop.call_later(_WALL_CHECK_S, self._check_wall_clock)

    def _check_stores(self) -> None:
        """Takes over keys and certificates whose files have changed, for new connections."""
        self._report(self._network.tls.reload())
        if not self._stopped:
            self._loop.call_later(_STORE_CHECK_S, self._check_stores)

    def _report(self, reloads: Iterator[tuple[str, str]]) -> None:
        for listener, refusal in reloads:
            text = f"listener {listener} reload: "
            text += f"kept the old ones ({refusal})" if refusal else "took the new certificates"
            self._log.line(Level.WARN if refusal else Level.INFO, text)
            self._request_tick()

    def _check_new_stores(self, effect: effects.CheckStores) -> None:
        refusal = self._network.tls.complaint_about(effect.settings)
        self._loop.call_soon(self._receive, effects.StoresChecked(effect.subject, refusal))

    def _on_disk_answers(self, answers: list[DiskAnswer]) -> None:
        for answer in answers:
            self.counters.flushes += 1
            if isinstance(answer, effects.FlushFailed):
                self.counters.flush_failures += 1
            self._receive(answer)

    def _from_thread(self, callback: Callable[[Any], None], argument: Any) -> None:
        # RuntimeError: the loop is closed, because the process is about to exit anyway.
        try:
            self._loop.call_soon_threadsafe(callback, argument)
        except RuntimeError:
            return

    # Connections ------------------------------------------------------------------------------

    def _accept(self, listener: str) -> Connection | TlsTransport:
        connection = Connection(self, self._next_id, listener)
        self._next_id += 1
        context = self._network.tls.of_opened(listener)
        return connection if context is None else TlsTransport(connection, self, context, None)

    def may_begin(self, connection: Connection) -> bool:
        """Whether a connection may begin its TLS handshake, by the limits of connections."""
        if connection.listener is None:
            return connection.connection_id in self._dials
        return self._admits(connection, connection.listener)

    def _admits(self, connection: Connection, listener: str) -> bool:
        admitted = not self._stopped and self._network.limits.admit(
            connection.connection_id, listener, connection.peer_host
        )
        self.counters.refused += not admitted
        return admitted

    def on_handshake_failed(self, connection: Connection, reason: str) -> None:
        """A line for the operator; the core does not know the connection."""
        if reason and not self._stopped:
            way = "dial" if connection.listener is None else f"listener {connection.listener}"
            text = f"{way} handshake: failed ({reason}) peer={connection.peer_host}"
            self._log.line(Level.INFO, text)
            self._request_tick()

    def on_never_opened(self, connection: Connection) -> None:
        """Its transport is gone; the core does not know it."""
        self._network.limits.release(connection.connection_id)

    def on_made(self, connection: Connection) -> None:
        """A transport is there: an accepted one, or one that the core asked for."""
        connection_id = connection.connection_id
        if connection.listener is None and connection_id not in self._dials:
            # The core closed it while the last step of the dial was under way.
            connection.known_to_core = False
            connection.abort()
        elif connection.listener is None:
            self._connections[connection_id] = connection
            self._receive(effects.Connected(connection_id))
        elif not self._admits(connection, connection.listener):
            connection.known_to_core = False
            connection.abort()
        else:
            self.counters.accepted += 1
            self._connections[connection_id] = connection
            self._receive(
                effects.Opened(
                    connection_id, connection.listener, connection.peer_host, connection.certificate
                )
            )

    def on_received(self, connection: Connection, data: memoryview) -> None:
        """Bytes arrived."""
        self.counters.received_bytes += len(data)
        self._receive(effects.Received(connection.connection_id, data))
        if self.turns.has_lasted(_ENOUGH_INPUT_NS):
            self._tick()

    def on_unsent(self, connection: Connection, size_bytes: int, *, moved: bool) -> None:
        """The peer does not take what it is sent; who holds too much so is cut."""
        if connection.known_to_core and (connection in self.unsent) is not (size_bytes > 0):
            self._receive(effects.Stalled(connection.connection_id, size_bytes > 0))
        self.unsent.note(connection, size_bytes, moved=moved)
        for slowest in self.unsent.take_excess():
            text = f"connection {slowest.connection_id} send: cut (too much unsent in all)"
            self._log.line(Level.WARN, text)
            slowest.abort()

    def on_lost(self, connection: Connection, reason: effects.CloseReason) -> None:
        """A transport is gone."""
        self._lingering.discard(connection)
        self.unsent.note(connection, 0)
        self._network.limits.release(connection.connection_id)
        if connection.known_to_core:
            connection.known_to_core = False
            del self._connections[connection.connection_id]
            self._receive(effects.Closed(connection.connection_id, reason))
        if self._stopped and not self._connections and not self._lingering:
            self._loop.stop()

    async def _dial(self, effect: effects.Connect) -> None:
        connection = Connection(self, effect.connection, None)
        context = self._network.tls.of_dialled(effect.listener)
        tls = None if context is None else TlsTransport(connection, self, context, effect.host)
        try:
            outcome = await dial(
                self._loop,
                lambda: tls or connection,
                effect.host,
                effect.port,
                timeout_ms=self._network.connect_timeout_ms,
            )
            if tls is not None and outcome is None:
                outcome = await asyncio.shield(tls.settled)
        except asyncio.CancelledError:
            # The core does not want it any more.
            if tls is not None and not tls.settled.done():
                tls.abort()
            raise
        self._dials.pop(effect.connection, None)
        if outcome is not None:
            self._receive(effects.Closed(effect.connection, outcome))

    # Effects ----------------------------------------------------------------------------------

    def _send(self, effect: effects.Send) -> None:
        connection = self._connections.get(effect.connection)
        if connection is None:
            # It broke in this tick, and the core has not received the end of it yet.
            return
        self.counters.sent_chunks += len(effect.chunks)
        connection.send(effect.chunks)

    def _connect(self, effect: effects.Connect) -> None:
        self._dials[effect.connection] = self._loop.create_task(self._dial(effect))

    def _close(self, effect: effects.Close) -> None:
        task = self._dials.pop(effect.connection, None)
        if task is not None:
            task.cancel()
        connection = self._connections.pop(effect.connection, None)
        if connection is not None:
            self._lingering.add(connection)
            self._loop.call_later(CLOSE_LINGER_MS / 1000, self._cut, connection)
            connection.close()

    def _cut(self, connection: Connection) -> None:
        if connection in self._lingering:
            connection.abort()

    def _hold_reading(self, effect: effects.HoldReading) -> None:
        if effect.connection in self._connections:
            self._connections[effect.connection].hold_reading(effect.held)

    def _on_disk(self, effect: effects.OnDisk) -> None:
        self._flushers[effect.disk].submit(effect.work)

    def _exit(self, effect: effects.Exit) -> None:
        self._finish(effect.code, effect.message)

    # The end ----------------------------------------------------------------------------------

    def _stop_for_bug(self, error: BaseException) -> None:
        if not self._stopped:
            self._log.crash(error)
            self._finish(EXIT_BUG, f"stopped by a bug: {type(error).__name__}: {error}")

    def _finish(self, code: int, message: str) -> None:
        """Stops the loop once what was sent has left, or after a moment."""
        self._stopped = True
        self.exit_code = code
        self.exit_message = message
        for server in self._servers:
            server.close()
        for task in self._dials.values():
            task.cancel()
        self.handshakes.cut_all()
        closing, self._connections = self._connections, {}
        self._lingering.update(closing.values())
        for connection in closing.values():
            connection.close()
        # A turn of the loop at least: cancelled dials end, closed transports are reported.
        self._loop.call_later(_LINGER_S if self._lingering else 0, self._loop.stop)

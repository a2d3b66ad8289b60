"""Feeds the node of each host with inputs and carries out its effects, as `runtime/` does for a
real one.

Inputs that reach a node at the same instant are followed by one `wake`. After the tick its
`check()` runs, so that an invariant that breaks names the event that broke it, and observers (the
checkers) look at the node. Bytes travel over the `Network`, flushes take a drawn time and are
answered in order, timers are the nodes' own deadlines.

On hosts whose work costs time (`work`) a tick is followed by the rest of its turn: the effects
leave at its end, and inputs that arrive before it wait.
"""

from collections.abc import Callable

from tidelog.broker.node import Node
from tidelog.env import effects
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.errors import StorageError
from tidelog.kraft.committed import contiguous
from tidelog.sim.engine.disk import ProcessKilled, SimDisk
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.network import Network
from tidelog.sim.engine.timeline import Simulation
from tidelog.sim.engine.work import EventLoop


class Driver:
    """Inputs, ticks, timers and effects of every host's process."""

    def __init__(
        self, simulation: Simulation, network: Network, prng: Prng, on_ended: Callable[[Host], None]
    ) -> None:
        self._simulation = simulation
        self._network = network
        # Draws how long flushes take.
        self._prng = prng
        # Called with a host whose process ended by itself or inside a write.
        self._on_ended = on_ended
        # Called with a host after each event of its node.
        self.observers: list[Callable[[Host], None]] = []
        # `check()` runs after every event, or after every n-th; 0 is never.
        self.check_every = 1

    def deliver(self, host: Host, life: int, event: effects.Input) -> None:
        """Hands an input to the process of a host, if it is still the one that it is for."""
        if host.node is None or host.life != life:
            return
        if host.paused or host.busy:
            host.waiting.append(event)
            return
        if host.loop is not None:
            if isinstance(event, effects.Received):
                host.loop.on_input(len(event.data), event.connection)
            else:
                host.loop.on_input(0)
            host.node.steps.begin(type(event).__name__)
        try:
            hand_over(host.node, event, host.local(self._simulation.now))
        except ProcessKilled:
            self._on_fuse(host)
            return
        self.queue_tick(host)

    def queue_tick(self, host: Host) -> None:
        """Ends the tick of a host behind all inputs of this instant that are queued by now."""
        if host.tick_at != self._simulation.now:
            host.tick_at = self._simulation.now
            life = host.life
            self._simulation.at(0, lambda: self._tick(host, life))

    def _tick(self, host: Host, life: int) -> None:
        if host.life == life:
            host.tick_at = -1
        if host.node is None or host.life != life or host.paused or host.busy:
            return
        if host.loop is not None:
            host.node.steps.begin("tick")
        try:
            host.node.wake(host.local(self._simulation.now))
        except ProcessKilled:
            self._on_fuse(host)
            return
        self._after(host)

    def _on_fuse(self, host: Host) -> None:
        self._simulation.note(f"world {host.name}: killed (inside a write)")
        self._on_ended(host)

    def _after(self, host: Host) -> None:
        node, simulation = host.node, self._simulation
        assert node is not None
        life = host.life
        simulation.event_count += 1
        emitted = node.take_effects()
        over_at = simulation.now if host.loop is None else self._end_turn(host, host.loop, emitted)
        simulation.digest.update(b"%d %d %d" % (simulation.now, host.node_id, len(emitted)))
        if self.check_every and simulation.event_count % self.check_every == 0:
            node.check()
        if effects.Exit not in map(type, emitted):
            for observe in self.observers:
                observe(host)
        if host.life == life and not self._keep_busy(host, emitted, over_at):
            self._let_go(host, emitted)

    def _let_go(self, host: Host, emitted: list[effects.Effect]) -> None:
        """Carries out the effects of a turn that is over."""
        life = host.life
        for effect in emitted:
            if host.life != life:
                return
            self._carry_out(host, effect)
        if host.life == life:
            assert host.node is not None, f"{host.name} has no process"
            self._set_timer(host, host.node.deadline())

    # Turns that take time --------------------------------------------------------------------

    def on_started(self, host: Host) -> None:
        """A process was made, and has read its disk."""
        if host.loop is None:
            self.queue_tick(host)
            return
        assert host.node is not None, f"{host.name} has no process"
        host.loop.begin_life(*_metadata_ends(host.node))
        if not self._keep_busy(host, [], self._end_turn(host, host.loop, [])):
            self.queue_tick(host)

    def on_role_change(self, host: Host) -> None:
        """A replica of a host has changed its role."""
        if host.loop is not None:
            host.loop.on_role_change()

    def _end_turn(
        self, host: Host, loop: EventLoop[effects.Effect], emitted: list[effects.Effect]
    ) -> int:
        """Returns when the turn is over whose state has just changed."""
        disk_us = 0
        for disk in host.disks:
            disk_us += disk.spent_us
            disk.spent_us = 0
        assert host.node is not None, f"{host.name} has no process"
        decided, replayed = _metadata_ends(host.node)
        return loop.end_turn(
            self._simulation.now,
            disk_us,
            len(emitted),
            decided=decided,
            replayed=replayed,
            snapshot=host.node.broker.quorum.latest_snapshot,
        )

    def _keep_busy(self, host: Host, emitted: list[effects.Effect], over_at: int) -> bool:
        """Keeps effects back until the turn is over; False when it is over in this millisecond."""
        delay_ms = over_at - self._simulation.now
        if host.loop is None or delay_ms <= 0:
            return False
        host.loop.under_way = emitted
        life = host.life
        self._simulation.at(delay_ms, lambda: self._become_free(host, life))
        return True

    def _become_free(self, host: Host, life: int) -> None:
        """A turn is over: its effects leave, and what waited is the next one. A process that is
        stopped meanwhile ends its turn when it goes on."""
        if host.life != life or host.loop is None or host.paused:
            return
        emitted = host.loop.under_way
        if emitted is None or not host.loop.is_over(self._simulation.now):
            # The process was stopped, and has ended this turn when it went on.
            return
        host.loop.under_way = None
        self._let_go(host, emitted)
        if host.life == life:
            self._take_waiting(host)

    def resume(self, host: Host) -> None:
        """A process that was stopped goes on."""
        if host.busy:
            self._become_free(host, host.life)
        else:
            self._take_waiting(host)

    def _take_waiting(self, host: Host) -> None:
        waiting, host.waiting = host.waiting, []
        if host.loop is not None:
            waiting = _as_read(waiting)
        for event in waiting:
            self.deliver(host, host.life, event)
        if host.node is not None:
            self.queue_tick(host)

    def _set_timer(self, host: Host, deadline: Instant | None) -> None:
        if deadline is None:
            return
        now = self._simulation.now
        due = max(host.when(deadline), now)
        if 0 <= host.timer_at <= due:
            return
        life = host.life
        host.timer_at = due
        self._simulation.at(due - now, lambda: self._on_timer(host, life, due))

    def _on_timer(self, host: Host, life: int, due: int) -> None:
        if host.life != life or host.timer_at != due:
            return
        host.timer_at = -1
        assert host.node is not None, f"{host.name} has no process"
        deadline = host.node.deadline()
        if deadline is None or deadline > host.local(self._simulation.now):
            # What was due has happened, or moved: a wake would find nothing to do.
            self._set_timer(host, deadline)
        else:
            self._tick(host, life)

    def _carry_out(self, host: Host, effect: effects.Effect) -> None:
        if isinstance(effect, effects.Send):
            # Most effects are sends, and to match costs more than to ask.
            end = host.ends.get(effect.connection)
            if end is not None:
                data = contiguous(effect.chunks)
                self._simulation.digest.update(data)
                self._network.send(end, data)
            return
        match effect:
            case effects.Connect(connection_id, target, port, _):
                self._connect(host, connection_id, target, port)
            case effects.Close(connection_id):
                host.connecting.discard(connection_id)
                end = host.ends.pop(connection_id, None)
                if end is not None:
                    self._network.close(end)
            case effects.Flush() | effects.Replace():
                lane = host.metadata_queue if effects.is_of_metadata(effect) else host.disk_queue
                lane.append(effect)
                self._begin_flush(host)
            case effects.OnDisk():
                host.disk_queue.append(effect)
                self._begin_flush(host)
            case effects.HoldReading():
                pass
            case effects.Compute():
                self._compute(host, effect)
            case effects.Exit(code, message):
                host.exit_code, host.exit_message = code, message
                self._on_ended(host)

    def _connect(self, host: Host, connection_id: int, target: str, port: int) -> None:
        life = host.life
        host.connecting.add(connection_id)

        def wanted() -> bool:
            return host.life == life and connection_id in host.connecting

        def done(up: bool) -> None:
            host.connecting.discard(connection_id)
            refused = effects.Closed(connection_id, effects.CloseReason.REFUSED)
            self.deliver(host, life, effects.Connected(connection_id) if up else refused)

        self._network.connect((host.name, connection_id), (target, port), wanted, done)

    def _compute(self, host: Host, effect: effects.Compute) -> None:
        """What a thread beside the loop does takes a drawn time, and is not the loop's."""
        life, (shortest, longest) = host.life, host.flush_ms

        def done() -> None:
            if host.life == life:
                self.deliver(
                    host, life, effects.Computed(effect.subject, effect.function(effects.no_rest))
                )

        self._simulation.at(self._prng.between(shortest, longest), done)

    def _begin_flush(self, host: Host) -> None:
        if host.flushing or not (host.metadata_queue or host.disk_queue):
            return
        first = host.metadata_queue.popleft() if host.metadata_queue else host.disk_queue.popleft()
        number, work = (first.disk, first.work) if isinstance(first, effects.OnDisk) else (0, first)
        self._end_later(host, (number, work))

    def hurry_flush(self, host: Host) -> None:
        """The disk works at its usual pace again, also at what it is at."""
        if host.flushing:
            number, work = host.flushing
            self._end_later(host, (number, work))

    def _end_later(self, host: Host, flushing: tuple[int, effects.Flush | effects.Replace]) -> None:
        host.flushing, life = flushing, host.life
        delay = self._prng.between(*host.flush_ms)
        self._simulation.at(delay, lambda: self._complete(host, life, flushing))

    def _complete(
        self, host: Host, life: int, flushing: tuple[int, effects.Flush | effects.Replace]
    ) -> None:
        if host.life != life or host.flushing is not flushing:
            return
        host.flushing, (number, work) = None, flushing
        self._begin_flush(host)
        try:
            _make_durable(host.disks[number], work)
        except ProcessKilled:
            self._on_fuse(host)
        except StorageError as error:
            self.deliver(host, life, effects.FlushFailed(work.subject, str(error), number))
        else:
            if work.subject is not None:
                self.deliver(host, life, effects.Flushed(work.subject))


def hand_over(node: Node, event: effects.Input, now: Instant) -> None:
    """As a real driver does: bytes lie in a buffer that the next ones of any connection
    overwrite."""
    if not isinstance(event, effects.Received):
        node.receive(event, now)
        return
    buffer = bytearray(event.data)
    node.receive(effects.Received(event.connection, memoryview(buffer)), now)
    buffer[:] = bytes(len(buffer))


def _metadata_ends(node: Node) -> tuple[int, int]:
    """The exclusive ends of a node's metadata log and of its image."""
    broker = node.broker
    return broker.quorum.log_end_offset, broker.image.offset


def _as_read(waiting: list[effects.Input]) -> list[effects.Input]:
    """The inputs as a loop meets them that comes back late: what has gathered in a socket meanwhile
    is one read."""
    found: list[effects.Input] = []
    # Where the bytes of a connection are.
    places: dict[int, int] = {}
    for event in waiting:
        if not isinstance(event, effects.Received):
            found.append(event)
            continue
        place = places.setdefault(event.connection, len(found))
        if place == len(found):
            found.append(event)
        else:
            earlier = found[place]
            assert isinstance(earlier, effects.Received), f"{earlier} has no bytes"
            data = bytes(earlier.data) + bytes(event.data)
            found[place] = effects.Received(event.connection, data)
    return found


def _make_durable(disk: SimDisk, work: effects.Flush | effects.Replace) -> None:
    """What the thread behind the loop does: its time is drawn, and is not the loop's."""
    spent_us = disk.spent_us
    try:
        if isinstance(work, effects.Flush):
            disk.sync(work.file)
        else:
            _replace(disk, work.path, work.data)
    finally:
        disk.spent_us = spent_us


def _replace(disk: SimDisk, path: str, data: bytes) -> None:
    directory, _, _ = path.rpartition("/")
    try:
        disk.replace(path, data)
    except StorageError:
        with disk.observed():
            is_gone = bool(directory) and not disk.exists(directory)
        if not is_gone:
            raise
        # The directory was renamed meanwhile and its log is gone: the file is not needed.

"""A cluster in one process and in virtual time.

Every node runs on its own simulated disk. The world carries out the effects of each node: bytes
travel over the `Network`, flushes take a drawn time and are answered in order, timers are the
nodes' own deadlines. After events of a node its `check()` runs, so an invariant that breaks names
the event that broke it; observers (the checkers) look at the node at the same moments.

Ticks work as in the real driver: inputs that reach a node at the same instant are followed by one
`wake`.

How a process can end
- `kill`: SIGKILL between two events; `disk.fuse`: SIGKILL at a chosen write. The page cache
  survives, the kernel closes the streams.
- `power_cut`: what was not flushed is lost, and nobody is told anything.
- `stop`: SIGTERM. `Exit` effects: the node gives up by itself; `host.exit_code` says so.
- a disk that fails while the process starts.

One queue orders everything by (time, seeded tie-break, sequence): the same seed is the same run,
on every machine, whatever the hash seed of the interpreter.
"""

import hashlib
import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tidelog.broker.node import Node
from tidelog.config import NodeConfig, parse_node_config
from tidelog.env.disk import Buffer, FileSlice
from tidelog.env.effects import (
    Chunk,
    Close,
    Closed,
    CloseReason,
    Connect,
    Connected,
    Effect,
    Exit,
    Flush,
    Flushed,
    FlushFailed,
    Input,
    PauseReading,
    Replace,
    ResumeReading,
    Send,
    StopRequested,
    WallClock,
    is_of_metadata,
)
from tidelog.env.event import Event
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.env.trace import Level, TraceEvent
from tidelog.errors import StorageError, UsageError
from tidelog.kraft.messages import Voter
from tidelog.kraft.voters import write_first_voters
from tidelog.log.directory import format_directory, read_identity
from tidelog.model import Uuid
from tidelog.sim.engine.disk import ProcessKilled, SimDisk
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.network import End, Network
from tidelog.sim.report.elections import Elections
from tidelog.sim.report.marks import MarksHit

WALL_START_MS: Final = 1_700_000_000_000
CLUSTER_ID: Final = "c2ltdWxhdGVkLWNsdXN0ZQ"
CLIENT: Final = "client"
BROKER_LISTENER: Final = "PLAINTEXT"
CONTROLLER_LISTENER: Final = "CONTROLLER"


class HostTrace:
    """Writes a node's events into the world's trace, with time and name."""

    def __init__(self, world: "World", host: str) -> None:
        self._world = world
        self._host = host

    def emit(self, event: Event | TraceEvent) -> None:
        """Appends one line, and looks for a mark and a new leader."""
        self._world.marks.note(event)
        self._world.elections.note(event, self._host, self._world.now)
        if not self._world.silent:
            self._world.note(f"{self._host} {event.text()}")


def _roles_of(node_id: int, nodes: int, controllers: int, *, voters_in_log: bool) -> dict[str, str]:
    """The properties by which the nodes of a world differ in what they are."""
    first = nodes + 1 if controllers else 1
    voters = range(first, first + (controllers or nodes))
    if voters_in_log:
        servers = ",".join(f"host{i}:9093" for i in voters)
        settings = {"controller.quorum.bootstrap.servers": servers}
    else:
        settings = {"controller.quorum.voters": ",".join(f"{i}@host{i}:9093" for i in voters)}
    broker, controller = f"PLAINTEXT://host{node_id}:9092", f"CONTROLLER://host{node_id}:9093"
    if node_id > nodes:
        return settings | {"process.roles": "controller", "listeners": controller}
    settings["inter.broker.listener.name"] = "PLAINTEXT"
    if controllers:
        return settings | {"process.roles": "broker", "listeners": broker}
    both = f"{broker},{controller}"
    return settings | {"process.roles": "broker,controller", "listeners": both}


def _seat_of(host: Host) -> Voter:
    with host.disk.observed():
        directory_id = read_identity(host.disk).directory_id
    return Voter(host.node_id, directory_id, host.config.advertised_controller_listeners)


class ClientPort:
    """The receiving side of simulated clients; `sim.client` registers itself here."""

    def on_connected(self, connection_id: int) -> None:
        """The stream is up."""

    def on_closed(self, connection_id: int) -> None:
        """The stream is gone, or could not be made."""

    def on_bytes(self, connection_id: int, data: bytes) -> None:
        """Bytes arrived."""


@dataclass(slots=True, eq=False)
class ClientMachine:
    """The machine on which all clients run. It is a `network.Machine`."""

    name: str = CLIENT
    ends: dict[int, End] = field(default_factory=dict)
    powered: bool = True
    listening: bool = False
    # Who gets the events of a connection.
    ports: dict[int, ClientPort] = field(default_factory=dict)
    # Counts down: clients open connections, they accept none.
    next_id: int = -1

    def new_connection_id(self) -> int:
        """Clients are not connected to."""
        raise AssertionError("a client does not listen")

    def on_opened(self, connection_id: int, peer: str, port: int) -> None:
        """Clients are not connected to."""
        raise AssertionError("a client does not listen")

    def on_bytes(self, connection_id: int, data: bytes) -> None:
        """Bytes for the client."""
        self.ports[connection_id].on_bytes(connection_id, data)

    def on_closed(self, connection_id: int, reason: CloseReason) -> None:
        """The stream of the client ended."""
        self.ports.pop(connection_id).on_closed(connection_id)


class World:
    """Hosts, streams, clients and the event queue."""

    def __init__(
        self,
        seed: int,
        *,
        nodes: int = 3,
        controllers: int = 0,
        voters_in_log: bool = False,
        settings: Mapping[str, str] | None = None,
        tweak: Callable[[NodeConfig], NodeConfig] | None = None,
        trace_level: Level = Level.INFO,
    ) -> None:
        """`nodes` combined nodes; with `controllers`, as many nodes that are only controllers
        behind `nodes` that are only brokers. All controllers are voters at first: configured ones,
        or formatted as the first ones of a log that keeps them."""
        self.prng = Prng(seed)
        self.now = Instant(0)
        # The trace of all hosts.
        self.lines: list[str] = []
        # Inputs and ticks that reached nodes.
        self.event_count = 0
        # Of every event and what it made a node do and send; not of the trace, which has levels.
        self._digest = hashlib.blake2b(digest_size=16)
        # Rare states that were reached.
        self.marks = MarksHit()
        # How long partitions had no leader.
        self.elections = Elections()
        # Whether nodes' events are looked at only, and not written down.
        self.silent = False
        # Called with a host after each event of its node.
        self.observers: list[Callable[[Host], None]] = []
        # Called with a host when its node was made, before its first input.
        self.starters: list[Callable[[Host], None]] = []
        # Called with every line of the trace.
        self.listeners: list[Callable[[str], None]] = []
        self._trace_level = trace_level
        # `check()` runs after every event, or after every n-th; 0 is never.
        self.check_every = 1
        # (time, tie-break, sequence, action).
        # One list for the whole run; see `run_for`.
        self._queue: Final[list[tuple[int, int, int, Callable[[], None]]]] = []
        self._sequence = 0
        self.network = Network(self.at, Prng(self.prng.next_u64()))
        self.clients = ClientMachine()
        self.network.machines[CLIENT] = self.clients
        self.hosts: dict[int, Host] = {}
        # Whether voters come and go (`kraft.version` 1).
        self.voters_in_log = voters_in_log
        for node_id in range(1, nodes + controllers + 1):
            roles = _roles_of(node_id, nodes, controllers, voters_in_log=voters_in_log)
            host = self._make_host(node_id, nodes, {**roles, **(settings or {})})
            if tweak is not None:
                host.config = tweak(host.config)
            self.hosts[node_id] = self.network.machines[host.name] = host
        if voters_in_log:
            self._write_first_voters()

    def note(self, text: str) -> None:
        """Adds a line to the trace."""
        line = f"{self.now:>8} {text}"
        self.lines.append(line)
        for listener in self.listeners:
            listener(line)

    @property
    def trace_hash(self) -> str:
        """128 bits that two runs share only if the same happened in both."""
        return self._digest.hexdigest()

    # Processes -----------------------------------------------------------------------------

    def _make_host(self, node_id: int, nodes: int, extra: dict[str, str]) -> Host:
        settings = {
            "node.id": str(node_id),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": "data",
            "default.replication.factor": str(min(3, nodes)),
            "min.insync.replicas": str(min(2, nodes)),
            # Faults may keep nodes from a quorum for longer; whoever ends by itself is a bug here.
            "initial.broker.registration.timeout.ms": str(2**31 - 1),
            **extra,
        }
        disk = self._new_disk(node_id)
        return Host(f"host{node_id}", parse_node_config(settings), disk, self._deliver)

    def _new_disk(self, node_id: int) -> SimDisk:
        disk = SimDisk(root=f"host{node_id}")
        format_directory(
            disk,
            cluster_id=CLUSTER_ID,
            node_id=node_id,
            directory_id=Uuid(self.prng.uuid()),
        )
        return disk

    @property
    def seats(self) -> dict[int, Voter]:
        """Every controller as the voter that it is or would be."""
        controllers = [host for host in self.hosts.values() if host.config.is_controller]
        return {host.node_id: _seat_of(host) for host in controllers}

    def _write_first_voters(self) -> None:
        voters = self.seats
        for node_id in voters:
            write_first_voters(self.hosts[node_id].disk, voters, WALL_START_MS)

    def start(self, node_id: int) -> bool:
        """Starts the process of a host on its disk; False when the disk does not let it."""
        host = self.hosts[node_id]
        assert host.node is None, f"{host.name} runs already"
        host.life += 1
        host.exit_code = None
        host.paused = False
        host.waiting = []
        if not host.powered:
            host.powered = True
            self.network.power_up(host.name)
        try:
            host.node = Node(
                host.config,
                host.disk,
                self.prng.next_u64(),
                HostTrace(self, host.name),
                now=host.local(self.now),
                wall_ms=WALL_START_MS + host.local(self.now) + host.wall_offset_ms,
                trace_level=self._trace_level,
            )
        except ProcessKilled:
            self._end_process(host)
            return False
        except (StorageError, UsageError) as error:
            host.exit_code, host.exit_message = 1, str(error)
            self._end_process(host)
            return False
        for observe in self.starters:
            observe(host)
        self._queue_tick(host)
        return True

    def start_all(self) -> None:
        """Starts every host that is down."""
        for node_id, host in self.hosts.items():
            if host.node is None:
                self.start(node_id)

    def _end_process(self, host: Host) -> None:
        self.elections.process_ended(host.name, self.now)
        host.node = None
        host.stopping = False
        host.life += 1
        host.tick_at = host.timer_at = -1
        host.paused = False
        host.waiting = []
        host.connecting.clear()
        host.metadata_queue.clear()
        host.disk_queue.clear()
        host.disk_busy = False

    def kill(self, node_id: int, *, reset: bool = False) -> None:
        """SIGKILL: the process is gone, its kernel closes its streams, the page cache stays.
        With `reset` what is under way is lost, perhaps in the middle of a frame."""
        host = self.hosts[node_id]
        self._end_process(host)
        ends, host.ends = host.ends, {}
        for end in ends.values():
            if reset:
                self.network.reset(end)
            else:
                self.network.close(end)

    def power_cut(self, node_id: int, *, torn: bool = True) -> None:
        """The machine loses power: what was not flushed is lost (with `torn` only in part), and
        no stream is closed."""
        host = self.hosts[node_id]
        self._end_process(host)
        host.ends = {}
        host.powered = False
        host.disk.crash(self.prng if torn else None)

    def stop(self, node_id: int) -> None:
        """SIGTERM."""
        self.hosts[node_id].stopping = self.hosts[node_id].node is not None
        self._deliver(self.hosts[node_id], self.hosts[node_id].life, StopRequested())

    def pause(self, node_id: int) -> None:
        """SIGSTOP: the kernel goes on accepting and acknowledging, the process does not run."""
        self.hosts[node_id].paused = True

    def resume(self, node_id: int) -> None:
        """SIGCONT."""
        host = self.hosts[node_id]
        if not host.paused:
            return
        host.paused = False
        waiting, host.waiting = host.waiting, []
        for event in waiting:
            self._deliver(host, host.life, event)
        if host.node is not None:
            self._queue_tick(host)

    def set_wall_offset(self, node_id: int, offset_ms: int) -> None:
        """The wall clock of a machine jumps."""
        host = self.hosts[node_id]
        host.wall_offset_ms = offset_ms
        self._deliver(host, host.life, WallClock(WALL_START_MS + offset_ms))

    def set_clock_rate(self, node_id: int, rate: int) -> None:
        """The clock of a machine goes `rate` ms while the world's goes 1000."""
        host = self.hosts[node_id]
        host.set_clock_rate(rate, self.now)
        if host.node is not None:
            host.timer_at = -1
            self._queue_tick(host)

    def wipe(self, node_id: int) -> None:
        """The disk of a dead machine is replaced by an empty one, formatted for the same node."""
        host = self.hosts[node_id]
        assert host.node is None, f"{host.name} runs"
        host.disk = self._new_disk(node_id)

    # Time ----------------------------------------------------------------------------------

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Runs an action after a delay."""
        self._sequence += 1
        tie = self.prng.next_u64()
        heapq.heappush(self._queue, (self.now + delay_ms, tie, self._sequence, action))

    def step(self) -> bool:
        """Runs one event; False when there is none."""
        if not self._queue:
            return False
        self._run_first()
        return True

    def _run_first(self) -> None:
        at, _, _, action = heapq.heappop(self._queue)
        assert at >= self.now, "time runs backwards"
        self.now = self.network.now = Instant(at)
        action()

    def run_for(self, duration_ms: int) -> None:
        """Runs all events of the next `duration_ms`."""
        end = self.now + duration_ms
        queue = self._queue
        while queue and queue[0][0] <= end:
            self._run_first()
        self.now = self.network.now = Instant(end)

    def run_until(self, condition: Callable[[], bool], limit_ms: int = 60_000) -> int:
        """Runs until the condition holds; returns the virtual ms it took.

        Raises `TimeoutError` with the last trace lines when it does not hold in time.
        """
        start = self.now
        while not condition():
            if self.now - start > limit_ms or not self.step():
                tail = "\n".join(self.lines[-40:])
                raise TimeoutError(f"not reached within {limit_ms} ms\n{tail}")
        return self.now - start

    # Nodes ---------------------------------------------------------------------------------

    def _deliver(self, host: Host, life: int, event: Input) -> None:
        if host.node is None or host.life != life:
            return
        if host.paused:
            host.waiting.append(event)
            return
        try:
            host.node.receive(event, host.local(self.now))
        except ProcessKilled:
            self._on_fuse(host)
            return
        self._queue_tick(host)

    def _queue_tick(self, host: Host) -> None:
        if host.tick_at != self.now:
            host.tick_at = self.now
            life = host.life
            self.at(0, lambda: self._tick(host, life))

    def _tick(self, host: Host, life: int) -> None:
        if host.life == life:
            host.tick_at = -1
        if host.node is None or host.life != life or host.paused:
            return
        try:
            host.node.wake(host.local(self.now))
        except ProcessKilled:
            self._on_fuse(host)
            return
        self._after(host)

    def _on_fuse(self, host: Host) -> None:
        self.note(f"world {host.name}: killed (inside a write)")
        self.kill(host.node_id)

    def _after(self, host: Host) -> None:
        node = host.node
        assert node is not None
        life = host.life
        self.event_count += 1
        effects = node.take_effects()
        self._digest.update(b"%d %d %d" % (self.now, host.node_id, len(effects)))
        if self.check_every and self.event_count % self.check_every == 0:
            node.check()
        if Exit not in map(type, effects):
            for observe in self.observers:
                observe(host)
        for effect in effects:
            if host.life != life:
                return
            self._carry_out(host, effect)
        if host.life != life:
            return
        self._set_timer(host, node.deadline())

    def _set_timer(self, host: Host, deadline: Instant | None) -> None:
        if deadline is None:
            return
        due = max(host.when(deadline), self.now)
        if 0 <= host.timer_at <= due:
            return
        life = host.life
        host.timer_at = due
        self.at(due - self.now, lambda: self._on_timer(host, life, due))

    def _on_timer(self, host: Host, life: int, due: int) -> None:
        if host.life != life or host.timer_at != due:
            return
        host.timer_at = -1
        assert host.node is not None, f"{host.name} has no process"
        deadline = host.node.deadline()
        if deadline is None or deadline > host.local(self.now):
            # What was due has happened, or moved: a wake would find nothing to do.
            self._set_timer(host, deadline)
        else:
            self._tick(host, life)

    def _carry_out(self, host: Host, effect: Effect) -> None:
        if isinstance(effect, Send):
            # Most effects are sends, and to match costs more than to ask.
            end = host.ends.get(effect.connection)
            if end is not None:
                data = _joined(effect.chunks)
                self._digest.update(data)
                self.network.send(end, data)
            return
        match effect:
            case Connect(connection_id, target, port):
                self._connect(host, connection_id, target, port)
            case Close(connection_id):
                host.connecting.discard(connection_id)
                end = host.ends.pop(connection_id, None)
                if end is not None:
                    self.network.close(end)
            case Flush() | Replace():
                lane = host.metadata_queue if is_of_metadata(effect) else host.disk_queue
                lane.append(effect)
                self._begin_flush(host)
            case PauseReading() | ResumeReading():
                pass
            case Exit(code, message):
                host.exit_code, host.exit_message = code, message
                self.kill(host.node_id)

    def _begin_flush(self, host: Host) -> None:
        lane = host.metadata_queue or host.disk_queue
        if lane and not host.disk_busy:
            host.disk_busy = True
            work, life = lane.popleft(), host.life
            self.at(self.prng.between(*host.flush_ms), lambda: self._complete(host, life, work))

    def _complete(self, host: Host, life: int, work: Flush | Replace) -> None:
        if host.life != life:
            return
        host.disk_busy = False
        self._begin_flush(host)
        try:
            if isinstance(work, Flush):
                host.disk.sync(work.file)
            else:
                _replace(host, work.path, work.data)
        except ProcessKilled:
            self._on_fuse(host)
        except StorageError as error:
            self._deliver(host, life, FlushFailed(work.subject, str(error)))
        else:
            if work.subject is not None:
                self._deliver(host, life, Flushed(work.subject))

    def _connect(self, host: Host, connection_id: int, target: str, port: int) -> None:
        life = host.life
        host.connecting.add(connection_id)

        def wanted() -> bool:
            return host.life == life and connection_id in host.connecting

        def done(up: bool) -> None:
            host.connecting.discard(connection_id)
            event = Connected(connection_id) if up else Closed(connection_id, CloseReason.REFUSED)
            self._deliver(host, life, event)

        self.network.connect((host.name, connection_id), (target, port), wanted, done)

    # Links ---------------------------------------------------------------------------------

    def cut(self, sender_id: int, receiver_id: int) -> None:
        """From now on nothing that `sender_id` sends reaches `receiver_id`."""
        self.network.cut(self.hosts[sender_id].name, self.hosts[receiver_id].name)

    def heal(self) -> None:
        """Ends all cuts; what was kept back arrives, in order."""
        for source, target in sorted(self.network.cuts):
            self.network.mend(source, target)

    # Clients -------------------------------------------------------------------------------

    def open_client(self, port: ClientPort, node_id: int, listener: str = BROKER_LISTENER) -> int:
        """Connects a client to a listener of a node; returns the connection id."""
        clients = self.clients
        connection_id = clients.next_id
        clients.next_id -= 1
        clients.ports[connection_id] = port
        target = self.hosts[node_id]
        target_port = next(e.port for e in target.config.listeners if e.listener == listener)

        def wanted() -> bool:
            return connection_id in clients.ports

        def done(up: bool) -> None:
            if up:
                port.on_connected(connection_id)
            else:
                clients.on_closed(connection_id, CloseReason.REFUSED)

        self.network.connect((CLIENT, connection_id), (target.name, target_port), wanted, done)
        return connection_id

    def client_send(self, connection_id: int, data: bytes) -> None:
        """Sends a client's bytes."""
        end = self.clients.ends.get(connection_id)
        if end is not None:
            self.network.send(end, data)

    def client_close(self, connection_id: int) -> None:
        """Closes a client's end; its port hears nothing any more."""
        self.clients.ports.pop(connection_id, None)
        end = self.clients.ends.pop(connection_id, None)
        if end is not None:
            self.network.close(end)


def _replace(host: Host, path: str, data: bytes) -> None:
    directory, _, _ = path.rpartition("/")
    try:
        host.disk.replace(path, data)
    except StorageError:
        with host.disk.observed():
            is_gone = bool(directory) and not host.disk.exists(directory)
        if not is_gone:
            raise
        # The directory was renamed meanwhile, its log is gone: nobody needs the file.


def _joined(chunks: list[Chunk]) -> bytes:
    if len(chunks) == 1 and isinstance(chunks[0], bytes):
        return chunks[0]
    parts: list[Buffer] = []
    for chunk in chunks:
        if isinstance(chunk, FileSlice):
            parts.append(chunk.file.read(chunk.position, chunk.length))
        else:
            parts.append(chunk)
    return b"".join(parts)

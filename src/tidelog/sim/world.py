"""A cluster in one process and in virtual time.

Every node runs on its own memory disk. The world carries out the effects of each node: bytes travel
over `Stream`s, flushes take a drawn time and are answered in order, timers are the nodes' own
deadlines. After every event of a node its `check()` runs, so an invariant that breaks names the
event that broke it.

Ticks work as in the real driver: inputs that reach a node at the same instant are followed by one
`wake`. Kill -9 keeps what the process had written (the page cache survives it); a power cut also
drops what was not flushed.
"""

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
    Input,
    Opened,
    PauseReading,
    Received,
    Replace,
    ResumeReading,
    Send,
    StopRequested,
)
from tidelog.env.instant import Instant
from tidelog.env.memory_disk import MemoryDisk
from tidelog.env.prng import Prng
from tidelog.env.trace import Level, TraceEvent
from tidelog.log.directory import format_directory
from tidelog.model import Uuid
from tidelog.sim.network import Stream

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

    def emit(self, event: TraceEvent) -> None:
        """Appends one line."""
        self._world.lines.append(f"{self._world.now:>8} {self._host} {event.text()}")


@dataclass(slots=True, eq=False)
class Host:
    """One machine: a disk that outlives the process that may run on it."""

    name: str
    config: NodeConfig
    disk: MemoryDisk
    # The running process; None while it is down.
    node: Node | None = None
    # Counts processes, so that events for a dead one are dropped.
    life: int = 0
    # Whether the process is stopped (SIGSTOP): inputs wait.
    paused: bool = False
    waiting: list[Input] = field(default_factory=list)
    # Open streams by this host's connection id.
    streams: dict[int, Stream] = field(default_factory=dict)
    next_accepted_id: int = 1
    # When the disk's flush queue is through.
    disk_busy_until: int = 0
    # The instant for which a tick or timer is already queued.
    tick_at: int = -1
    timer_at: int = -1
    exit_code: int | None = None


class ClientPort:
    """The receiving side of simulated clients; `sim.client` registers itself here."""

    def on_connected(self, connection_id: int) -> None:
        """The stream is up."""

    def on_closed(self, connection_id: int) -> None:
        """The stream is gone, or could not be made."""

    def on_bytes(self, connection_id: int, data: bytes) -> None:
        """Bytes arrived."""


class World:
    """Hosts, streams, clients and the event queue."""

    def __init__(
        self,
        seed: int,
        *,
        nodes: int = 3,
        settings: Mapping[str, str] | None = None,
        trace_level: Level = Level.INFO,
        check: bool = True,
    ) -> None:
        self.prng = Prng(seed)
        self.now = Instant(0)
        # The trace of all hosts.
        self.lines: list[str] = []
        self._trace_level = trace_level
        # Whether `check()` runs after every event.
        self._check = check
        # (time, tie-break, sequence, action).
        self._queue: list[tuple[int, int, int, Callable[[], None]]] = []
        self._sequence = 0
        self.hosts: dict[int, Host] = {}
        # Streams that clients opened, by their (negative) id.
        self._client_streams: dict[int, Stream] = {}
        self._next_client_id = -1
        # Who gets client events, by connection id.
        self._client_ports: dict[int, ClientPort] = {}
        # Pairs of host names that cannot reach each other, in the direction given.
        self.cuts: set[tuple[str, str]] = set()
        # Streams with something kept back, in order of the first.
        self._cut_streams: dict[Stream, None] = {}
        for node_id in range(1, nodes + 1):
            self.hosts[node_id] = self._make_host(node_id, nodes, dict(settings or {}))

    # Processes -----------------------------------------------------------------------------

    def _make_host(self, node_id: int, nodes: int, extra: dict[str, str]) -> Host:
        voters = ",".join(f"{i}@host{i}:9093" for i in range(1, nodes + 1))
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://host{node_id}:9092,CONTROLLER://host{node_id}:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.quorum.voters": voters,
            "log.dirs": "data",
            "default.replication.factor": str(min(3, nodes)),
            "min.insync.replicas": str(min(2, nodes)),
            **extra,
        }
        disk = MemoryDisk(root=f"host{node_id}")
        format_directory(
            disk,
            cluster_id=CLUSTER_ID,
            node_id=node_id,
            directory_id=Uuid(self.prng.uuid()),
        )
        return Host(f"host{node_id}", parse_node_config(settings), disk)

    def start(self, node_id: int) -> None:
        """Starts the process of a host on its disk."""
        host = self.hosts[node_id]
        assert host.node is None, f"{host.name} runs already"
        host.life += 1
        host.exit_code = None
        host.paused = False
        host.waiting = []
        host.node = Node(
            host.config,
            host.disk,
            self.prng.next_u64(),
            HostTrace(self, host.name),
            now=self.now,
            wall_ms=WALL_START_MS + self.now,
            trace_level=self._trace_level,
        )
        self._queue_tick(host)

    def start_all(self) -> None:
        """Starts every host that is down."""
        for node_id, host in self.hosts.items():
            if host.node is None:
                self.start(node_id)

    def kill(self, node_id: int) -> None:
        """SIGKILL: the process is gone, its kernel closes its streams, the page cache stays."""
        host = self.hosts[node_id]
        host.node = None
        host.life += 1
        host.tick_at = host.timer_at = -1
        for connection_id, stream in sorted(host.streams.items()):
            self._close_stream(stream, host.name, connection_id)
        host.streams = {}

    def power_cut(self, node_id: int) -> None:
        """The machine loses power: what was not flushed is lost."""
        self.kill(node_id)
        self.hosts[node_id].disk.crash(self.prng)

    def stop(self, node_id: int) -> None:
        """SIGTERM."""
        self._deliver(self.hosts[node_id], self.hosts[node_id].life, StopRequested())

    def pause(self, node_id: int) -> None:
        """SIGSTOP: the kernel goes on accepting and acknowledging, the process does not run."""
        self.hosts[node_id].paused = True

    def resume(self, node_id: int) -> None:
        """SIGCONT."""
        host = self.hosts[node_id]
        host.paused = False
        waiting, host.waiting = host.waiting, []
        for event in waiting:
            self._deliver(host, host.life, event)
        self._queue_tick(host)

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
        at, _, _, action = heapq.heappop(self._queue)
        assert at >= self.now, "time runs backwards"
        self.now = Instant(at)
        action()
        return True

    def run_for(self, duration_ms: int) -> None:
        """Runs all events of the next `duration_ms`."""
        end = self.now + duration_ms
        while self._queue and self._queue[0][0] <= end:
            self.step()
        self.now = Instant(end)

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
        host.node.receive(event, self.now)
        self._after(host)
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
        host.node.wake(self.now)
        self._after(host)

    def _after(self, host: Host) -> None:
        node = host.node
        assert node is not None
        effects = node.take_effects()
        if self._check:
            node.check()
        for effect in effects:
            self._carry_out(host, effect)
        if host.node is None:
            return
        deadline = node.deadline()
        if deadline is not None and (host.timer_at < 0 or deadline < host.timer_at):
            host.timer_at = max(deadline, self.now)
            life, due = host.life, host.timer_at
            self.at(due - self.now, lambda: self._on_timer(host, life, due))

    def _on_timer(self, host: Host, life: int, due: int) -> None:
        if host.life == life and host.timer_at == due:
            host.timer_at = -1
            self._tick(host, life)

    def _carry_out(self, host: Host, effect: Effect) -> None:
        match effect:
            case Send(connection_id, chunks):
                stream = host.streams.get(connection_id)
                if stream is not None:
                    self._send(stream, host.name, connection_id, _joined(chunks))
            case Connect(connection_id, target, port):
                self._connect(host, connection_id, target, port)
            case Close(connection_id):
                stream = host.streams.pop(connection_id, None)
                if stream is not None:
                    self._close_stream(stream, host.name, connection_id)
            case Flush(file, subject):
                self._on_disk(host, lambda: host.disk.sync(file), subject)
            case Replace(path, data, subject):
                self._on_disk(host, lambda: host.disk.replace(path, data), subject)
            case PauseReading() | ResumeReading():
                pass
            case Exit(code, _):
                host.exit_code = code
                self.kill(_node_id(host))

    def _on_disk(self, host: Host, action: Callable[[], None], subject: object) -> None:
        life = host.life
        host.disk_busy_until = max(host.disk_busy_until, self.now) + self.prng.between(0, 2)

        def finish() -> None:
            if host.life == life:
                action()
                if subject is not None:
                    self._deliver(host, life, Flushed(subject))

        self.at(host.disk_busy_until - self.now, finish)

    # Streams -------------------------------------------------------------------------------

    def _host_named(self, name: str) -> Host:
        return next(host for host in self.hosts.values() if host.name == name)

    def _connect(self, host: Host, connection_id: int, target: str, port: int) -> None:
        life = host.life

        def arrive() -> None:
            if host.node is None or host.life != life:
                return
            stream = self._accept(host.name, connection_id, target, port)
            if stream is None:
                refused = Closed(connection_id, CloseReason.REFUSED)
                self.at(1, lambda: self._deliver(host, life, refused))
                return
            host.streams[connection_id] = stream
            self.at(1, lambda: self._deliver(host, life, Connected(connection_id)))

        self.at(self.prng.between(0, 1), arrive)

    def _accept(self, opener: str, opener_id: int, target: str, port: int) -> Stream | None:
        acceptor = self._host_named(target)
        if acceptor.node is None:
            return None
        listener = next(e.listener for e in acceptor.config.listeners if e.port == port)
        accepted_id = acceptor.next_accepted_id
        acceptor.next_accepted_id += 1
        stream = Stream(opener, opener_id, acceptor.name, accepted_id)
        acceptor.streams[accepted_id] = stream
        self._deliver(acceptor, acceptor.life, Opened(accepted_id, listener, opener))
        return stream

    def _send(self, stream: Stream, sender: str, connection_id: int, data: bytes) -> None:
        if not stream.open:
            return
        host_name, other_id = stream.other_end(sender, connection_id)
        when = self._delivery_time(stream, host_name)
        self.at(when - self.now, lambda: self._arrive(stream, sender, host_name, other_id, data))

    def _delivery_time(self, stream: Stream, receiver: str) -> int:
        when = self.now + self.prng.between(0, 1)
        if receiver == stream.opener:
            when = stream.last_to_opener = max(when, stream.last_to_opener)
        else:
            when = stream.last_to_acceptor = max(when, stream.last_to_acceptor)
        return when

    def _arrive(
        self, stream: Stream, sender: str, receiver: str, connection_id: int, data: bytes
    ) -> None:
        if self._holds(stream, sender, receiver):
            arrival = (stream, sender, receiver, connection_id, data)
            stream.held[receiver].append(lambda: self._arrive(*arrival))
            return
        if receiver == CLIENT:
            self._client_ports[connection_id].on_bytes(connection_id, data)
            return
        host = self._host_named(receiver)
        if connection_id in host.streams:
            self._deliver(host, host.life, Received(connection_id, data))

    def _holds(self, stream: Stream, sender: str, receiver: str) -> bool:
        if (sender, receiver) in self.cuts:
            stream.held.setdefault(receiver, [])
            self._cut_streams[stream] = None
            return True
        return False

    def cut(self, sender_id: int, receiver_id: int) -> None:
        """From now on nothing that `sender_id` sends reaches `receiver_id`."""
        self.cuts.add((self.hosts[sender_id].name, self.hosts[receiver_id].name))

    def heal(self) -> None:
        """Ends all cuts; what was kept back arrives, in order."""
        self.cuts.clear()
        streams, self._cut_streams = self._cut_streams, {}
        for stream in streams:
            held, stream.held = stream.held, {}
            for arrivals in held.values():
                for arrive in arrivals:
                    arrive()

    def _close_stream(self, stream: Stream, closer: str, connection_id: int) -> None:
        if not stream.open:
            return
        stream.open = False
        receiver, other_id = stream.other_end(closer, connection_id)
        when = self._delivery_time(stream, receiver)
        self.at(when - self.now, lambda: self._arrive_close(stream, closer, receiver, other_id))

    def _arrive_close(self, stream: Stream, closer: str, receiver: str, connection_id: int) -> None:
        if self._holds(stream, closer, receiver):
            arrival = (stream, closer, receiver, connection_id)
            stream.held[receiver].append(lambda: self._arrive_close(*arrival))
            return
        if receiver == CLIENT:
            self._client_ports[connection_id].on_closed(connection_id)
            return
        host = self._host_named(receiver)
        if host.streams.pop(connection_id, None) is not None:
            self._deliver(host, host.life, Closed(connection_id, CloseReason.PEER))

    # Clients -------------------------------------------------------------------------------

    def open_client(self, port: ClientPort, node_id: int, listener: str = BROKER_LISTENER) -> int:
        """Connects a client to a listener of a node; returns the connection id."""
        connection_id = self._next_client_id
        self._next_client_id -= 1
        self._client_ports[connection_id] = port
        target = self.hosts[node_id]
        target_port = next(e.port for e in target.config.listeners if e.listener == listener)

        def arrive() -> None:
            stream = self._accept(CLIENT, connection_id, target.name, target_port)
            if stream is None:
                port.on_closed(connection_id)
                return
            self._client_streams[connection_id] = stream
            port.on_connected(connection_id)

        self.at(1, arrive)
        return connection_id

    def client_send(self, connection_id: int, data: bytes) -> None:
        """Sends a client's bytes."""
        stream = self._client_streams.get(connection_id)
        if stream is not None:
            self._send(stream, CLIENT, connection_id, data)

    def client_close(self, connection_id: int) -> None:
        """Closes a client's end."""
        stream = self._client_streams.pop(connection_id, None)
        if stream is not None:
            self._close_stream(stream, CLIENT, connection_id)


def _joined(chunks: list[Chunk]) -> bytes:
    parts: list[Buffer] = []
    for chunk in chunks:
        if isinstance(chunk, FileSlice):
            parts.append(chunk.file.read(chunk.position, chunk.length))
        else:
            parts.append(chunk)
    return b"".join(parts)


def _node_id(host: Host) -> int:
    return host.config.node_id

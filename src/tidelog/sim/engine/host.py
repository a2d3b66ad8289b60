"""A simulated machine: a disk that outlives the process that may run on it."""

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field

from tidelog.broker.node import Node
from tidelog.config import NodeConfig
from tidelog.env.effects import (
    Closed,
    CloseReason,
    Effect,
    Flush,
    Input,
    OnDisk,
    Opened,
    Received,
    Replace,
)
from tidelog.env.instant import Instant
from tidelog.sim.engine.disk import SimDisk
from tidelog.sim.engine.network import Pipe
from tidelog.sim.engine.work import EventLoop, Hardware


@dataclass(slots=True, eq=False)
class Host:
    """One machine. It is a `network.Machine`."""

    name: str
    config: NodeConfig
    disk: SimDisk
    # Hands an input to the running process, in the world's way.
    deliver: Callable[["Host", int, Input], None]
    # Its other disks, where it has several; they are numbered from 1.
    more_disks: tuple[SimDisk, ...] = ()
    # The running process; None while it is down.
    node: Node | None = None
    # Counts processes, so that events for a dead one are dropped.
    life: int = 0
    # Whether the process is stopped (SIGSTOP): inputs wait.
    paused: bool = False
    # What the process's turns cost; `None` where work is free.
    loop: EventLoop[Effect] | None = None
    # Whether the process was asked to stop and has not ended.
    stopping: bool = False
    # Inputs of a process that is stopped, or busy with the turn before.
    waiting: list[Input] = field(default_factory=list)
    # False between a power cut and the next start.
    powered: bool = True
    # Open streams by this host's connection id.
    ends: dict[int, Pipe] = field(default_factory=dict)
    # Connections that the process has asked for and that are not up.
    connecting: set[int] = field(default_factory=set)
    next_accepted_id: int = 1
    # How long a flush takes.
    flush_ms: tuple[int, int] = (0, 2)
    # What the disks have to do, one after the other; the metadata's own lane goes first.
    metadata_queue: deque[Flush | Replace] = field(default_factory=deque)
    disk_queue: deque[Flush | Replace | OnDisk] = field(default_factory=deque)
    # The work that the disk is at, with the number of the disk: another object for each time that
    # an end is set for it.
    flushing: tuple[int, Flush | Replace] | None = None
    # Wall time minus the world's time.
    wall_offset_ms: int = 0
    # The machine's own clock: it read `clock_start` at the world's `clock_since`, and from there on
    # it goes `clock_rate` while the world's goes 1000.
    clock_rate: int = 1000
    clock_start: int = 0
    clock_since: int = 0
    # The instant for which a tick or timer is already queued.
    tick_at: int = -1
    timer_at: int = -1
    # Of the last process that ended by itself.
    exit_code: int | None = None
    exit_message: str = ""

    @property
    def node_id(self) -> int:
        """The number of the node that lives here."""
        return self.config.node_id

    @property
    def listening(self) -> bool:
        """Whether connects are accepted: by a stopped process too, its kernel does it."""
        return self.node is not None

    @property
    def disks(self) -> tuple[SimDisk, ...]:
        """All disks; the first has the metadata log."""
        return (self.disk, *self.more_disks)

    @property
    def all_well(self) -> bool:
        """Whether nothing is wrong with any of its disks now."""
        return all(disk.is_well for disk in self.disks)

    @property
    def all_sound(self) -> bool:
        """Whether all are well and hold what was written to them."""
        return all(disk.is_sound for disk in self.disks)

    def observed(self) -> AbstractContextManager[object]:
        """Nothing strikes inside, on any disk."""
        if not self.more_disks:
            # After every event.
            return self.disk.observed()
        stack = ExitStack()
        for disk in self.disks:
            stack.enter_context(disk.observed())
        return stack

    @property
    def disk_idle(self) -> bool:
        """Whether the disk has done all that the process has asked of it."""
        return not (self.flushing or self.metadata_queue or self.disk_queue)

    @property
    def busy(self) -> bool:
        """Whether the process is in the middle of a turn."""
        return self.loop is not None and self.loop.under_way is not None

    def set_hardware(self, hardware: Hardware | None) -> None:
        """What work costs from the next start on."""
        self.loop = None if hardware is None else EventLoop(hardware)
        self.set_disks(self.disks)

    def set_disks(self, disks: tuple[SimDisk, ...]) -> None:
        """The machine gets other disks."""
        self.disk, *others = disks
        self.more_disks = tuple(others)
        for disk in disks:
            disk.costs = None if self.loop is None else self.loop.costs

    @property
    def running(self) -> bool:
        """Whether the process runs and is not stopped."""
        return self.node is not None and not self.paused

    def local(self, world_now: int) -> Instant:
        """What the machine's clock reads. It never goes back."""
        return Instant(self.clock_start + (world_now - self.clock_since) * self.clock_rate // 1000)

    def when(self, local: int) -> int:
        """The earliest time of the world at which the machine's clock reads at least this."""
        return self.clock_since + -((self.clock_start - local) * 1000 // self.clock_rate)

    def set_clock_rate(self, rate: int, world_now: int) -> None:
        """The clock goes at another speed from now on."""
        self.clock_start, self.clock_since = self.local(world_now), world_now
        self.clock_rate = rate

    def new_connection_id(self) -> int:
        """The number of a connection about to be accepted."""
        connection_id = self.next_accepted_id
        self.next_accepted_id += 1
        return connection_id

    def on_opened(self, connection_id: int, peer: str, port: int) -> None:
        """A peer connected to one of the listeners."""
        listener = next(e.listener for e in self.config.listeners if e.port == port)
        self.deliver(self, self.life, Opened(connection_id, listener, peer))

    def on_bytes(self, connection_id: int, data: bytes) -> None:
        """Bytes for the process."""
        self.deliver(self, self.life, Received(connection_id, data))

    def on_closed(self, connection_id: int, reason: CloseReason) -> None:
        """A stream of the process ended."""
        self.deliver(self, self.life, Closed(connection_id, reason))

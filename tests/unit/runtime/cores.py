"""Cores for the driver's tests: the five verbs, and nothing of Kafka.

They are whole programs for the driver, not mocks of the node: what an echo server receives makes
it do everything that a core may ask of a driver.
"""

from collections.abc import Callable

from tidelog.config import NodeConfig
from tidelog.env.disk import Disk, File, FileSlice
from tidelog.env.effects import (
    Chunk,
    Close,
    Closed,
    Compute,
    Computed,
    Connect,
    Connected,
    Effect,
    EffectQueue,
    Exit,
    Input,
    Opened,
    Received,
    Send,
    StopRequested,
)
from tidelog.env.instant import Instant
from tidelog.env.memory_disk import MemoryDisk
from tidelog.env.steps import ClientFigures, Steps
from tidelog.env.trace import TraceSink


class EchoCore:
    """Echoes lines. Some lines are commands:

    `slice FILE POS LEN` sends a file's bytes, `late MS TEXT` answers after a time, `bye` answers
    and closes, `bug` breaks an assertion, `dial HOST PORT` connects and reports how it went,
    `compute TEXT` has the text turned round beside the loop.
    """

    def __init__(self, disk: Disk) -> None:
        self.effects = EffectQueue()
        self.steps = Steps()
        self.client_figures = ClientFigures()
        self.under_replicated = 0
        self.disk = disk
        self.inputs: list[Input] = []
        # Files that slices were sent of.
        self.files: list[File] = []
        # What each connection sent of an unfinished line.
        self.partial: dict[int, bytes] = {}
        # (due, connection, answer), in order of arrival.
        self.late: list[tuple[Instant, int, bytes]] = []
        # Dials under way: our connection id to the one who asked.
        self.dials: dict[int, int] = {}
        self.next_dial = -1
        self.now = Instant(0)
        self.ticks = 0

    def receive(self, event: Input, now: Instant) -> None:
        """Takes one input."""
        assert now >= self.now, "time went back"
        self.now = now
        match event:
            case Received(connection, data) if connection > 0:
                self.on_bytes(connection, bytes(data), now)
                event = Received(connection, bytes(data))
            case Received(connection, data):
                event = Received(connection, bytes(data))
            case Connected(connection):
                self.send(self.dials[connection], b"connected")
            case Closed(connection, reason) if connection < 0:
                self.send(self.dials[connection], reason.name.encode())
            case Computed(connection, text):
                assert isinstance(connection, int) and isinstance(text, bytes)
                self.send(connection, text)
            case StopRequested():
                self.effects.emit(Exit(0, "asked to"))
        self.inputs.append(event)

    def on_bytes(self, connection: int, data: bytes, now: Instant) -> None:
        """Handles the whole lines of what arrived."""
        lines = (self.partial.pop(connection, b"") + data).split(b"\n")
        self.partial[connection] = lines.pop()
        for line in lines:
            self.on_line(connection, line, now)

    def on_line(self, connection: int, line: bytes, now: Instant) -> None:
        """Handles one line."""
        match line.split():
            case [b"slice", path, position, length]:
                file = self.disk.open(path.decode())
                self.files.append(file)
                piece = FileSlice(file, int(position), int(length))
                self.effects.emit(Send(connection, [b"<", piece, b">\n"]))
            case [b"late", ms, text]:
                self.late.append((Instant(now + int(ms)), connection, text))
            case [b"bye"]:
                self.send(connection, b"bye")
                self.effects.emit(Close(connection))
            case [b"bug"]:
                raise AssertionError("the core is broken")
            case [b"compute", text]:
                self.effects.emit(Compute(lambda _: text[::-1], connection))
            case [b"dial", host, port]:
                self.dials[self.next_dial] = connection
                self.effects.emit(Connect(self.next_dial, host.decode(), int(port), "PLAINTEXT"))
                self.next_dial -= 1
            case _:
                self.send(connection, line)

    def send(self, connection: int, *chunks: Chunk) -> None:
        """Sends one line."""
        self.effects.emit(Send(connection, [*chunks, b"\n"]))

    def wake(self, now: Instant) -> None:
        """Answers what is due."""
        self.ticks += 1
        due = [item for item in self.late if item[0] <= now]
        self.late = [item for item in self.late if item[0] > now]
        for _, connection, text in due:
            self.send(connection, text)

    def deadline(self) -> Instant | None:
        """The earliest late answer."""
        return min((item[0] for item in self.late), default=None)

    def take_effects(self) -> list[Effect]:
        """What to carry out."""
        return self.effects.take()

    def check(self) -> None:
        """Holds no invariant worth checking."""

    def close_files(self) -> None:
        """Closes every file that a slice was sent of, as the deletion of a topic does."""
        for file in self.files:
            file.close()

    def opened(self) -> list[Opened]:
        """The connections that were accepted, in order."""
        return [event for event in self.inputs if isinstance(event, Opened)]


class SlowCore(EchoCore):
    """Echoes, and moves the clock by what a line names: `work MS` at once, `tick MS` in the tick,
    `write MS` when the driver carries out what is to be sent."""

    def __init__(self) -> None:
        super().__init__(MemoryDisk())
        self.now_ns = 0
        self.tick_ms = 0
        self.write_ms = 0

    def on_line(self, connection: int, line: bytes, now: Instant) -> None:
        match line.split():
            case [b"work", ms]:
                self.steps.begin("CreateTopics", 12)
                self.spend(int(ms))
            case [b"tick", ms]:
                self.tick_ms = int(ms)
            case [b"write", ms]:
                self.write_ms = int(ms)
        super().on_line(connection, line, now)

    def wake(self, now: Instant) -> None:
        super().wake(now)
        self.tick_ms = self.spend(self.tick_ms)

    def deadline(self) -> Instant | None:
        self.write_ms = self.spend(self.write_ms)
        return super().deadline()

    def spend(self, ms: int) -> int:
        """Time passes; 0 is left of it."""
        self.now_ns += ms * 1_000_000
        return 0


def echo_factory(keep: Callable[[EchoCore], None]) -> Callable[..., EchoCore]:
    """A core factory for `run_node` that hands the core to the test as well."""

    def make(config: NodeConfig, disk: Disk, prng_seed: int, trace_sink: TraceSink) -> EchoCore:
        core = EchoCore(disk)
        keep(core)
        return core

    return make

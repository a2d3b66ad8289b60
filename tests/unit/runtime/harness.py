"""A driver with the echo core on a thread of its own, and blocking clients for it."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from time import monotonic_ns

import uvloop

from tests.unit.runtime.cores import EchoCore
from tidelog.env.disk import Disk
from tidelog.env.memory_disk import MemoryDisk
from tidelog.model import Endpoint
from tidelog.runtime.clock import now
from tidelog.runtime.connection_limits import ConnectionLimits, LimitRules
from tidelog.runtime.driver import Driver
from tidelog.runtime.event_file import EventFile
from tidelog.runtime.listening import bind
from tidelog.runtime.log_lines import LogLines
from tidelog.runtime.network import Network
from tidelog.runtime.tls_contexts import NO_TLS, TlsContexts

TIMEOUT_S = 10.0


class Client:
    """A blocking line client."""

    def __init__(
        self, port: int, wrap: Callable[[socket.socket], socket.socket] = lambda sock: sock
    ) -> None:
        self.socket = wrap(socket.create_connection(("127.0.0.1", port), TIMEOUT_S))
        self.reader = self.socket.makefile("rb")

    def write(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self.socket.sendall(data)

    def line(self) -> bytes:
        """The next line without its end; `b""` when the connection is closed."""
        return self.reader.readline().rstrip(b"\n")

    def ask(self, order: bytes) -> bytes:
        """One line for one line."""
        self.write(order + b"\n")
        return self.line()

    def closed(self) -> bool:
        """Waits for the end of the stream."""
        try:
            return self.reader.read(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        """Ends it."""
        self.reader.close()
        self.socket.close()


class RunningDriver:
    """A driver that runs until `stop`."""

    def __init__(
        self,
        core: EchoCore,
        max_connections: int,
        clock: Callable[[], int],
        events: EventFile | None,
        tls: TlsContexts,
    ) -> None:
        self.log_text = StringIO()
        self.core = core
        self.loop = uvloop.new_event_loop()
        self.driver = Driver(
            self.core,
            [core.disk],
            LogLines("b1", self.log_text),
            loop=self.loop,
            network=Network(2000, ConnectionLimits(LimitRules(max_connections), now), tls),
            events=events,
        )
        self.driver.turns.clock = clock
        (sock,) = bind(Endpoint("PLAINTEXT", "127.0.0.1", 0))
        self.port = sock.getsockname()[1]
        self.loop.run_until_complete(self.driver.listen("PLAINTEXT", sock, 50))
        self.thread = threading.Thread(target=self.driver.run)
        self.thread.start()

    def client(self) -> Client:
        """A new connection."""
        return Client(self.port)

    def stop(self) -> int:
        """Asks for a clean stop unless it has ended, and waits; returns the exit code."""
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.driver.request_stop)
        self.thread.join(TIMEOUT_S)
        assert not self.thread.is_alive(), "the driver did not stop"
        if not self.loop.is_closed():
            self.loop.close()
        return self.driver.exit_code


@contextmanager
def running_driver(
    disk: Disk | None = None, max_connections: int = 1000, tls: TlsContexts = NO_TLS
) -> Iterator[RunningDriver]:
    """A driver for the time of a test."""
    with running_core(EchoCore(disk or MemoryDisk()), max_connections, tls=tls) as running:
        yield running


@contextmanager
def running_core(
    core: EchoCore,
    max_connections: int = 1000,
    clock: Callable[[], int] = monotonic_ns,
    events: EventFile | None = None,
    tls: TlsContexts = NO_TLS,
) -> Iterator[RunningDriver]:
    """The same for a core, a clock and an event file of the test's own."""
    running = RunningDriver(core, max_connections, clock, events, tls)
    try:
        yield running
    finally:
        running.stop()

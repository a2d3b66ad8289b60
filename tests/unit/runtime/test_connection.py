"""Goal: chunks leave in order whatever their kind, and a peer that does not read harms no other."""

import socket
from pathlib import Path

from tests.unit.runtime.harness import TIMEOUT_S, Client, RunningDriver, running_driver
from tidelog.env.effects import Closed, Received, Stalled
from tidelog.env.held import Held
from tidelog.env.memory_disk import MemoryDisk
from tidelog.limits import WRITE_HIGH_WATER_BYTES
from tidelog.runtime.os_disk import OsDisk
from tidelog.testing.waiting import wait_until


def test_a_close_lets_the_answer_leave_first_and_reports_nothing() -> None:
    with running_driver() as running:
        client = running.client()
        client.write(b"bye\nignored\n")
        assert client.line() == b"bye"
        assert client.closed()
    assert not any(isinstance(event, Closed) for event in running.core.inputs)


def test_file_slices_leave_between_their_neighbours() -> None:
    """Method: more bytes than a socket takes at once, from a disk without file descriptors."""
    disk = MemoryDisk()
    content = bytes(range(256)) * 20_000
    disk.open("log", create=True).append([content])
    with running_driver(disk) as running:
        client = running.client()
        client.write(b"slice log 0 %d\nslice log 7 9\nafter\n" % len(content))
        expected = b"<" + content + b">\n<" + content[7:16] + b">\nafter\n"
        assert client.reader.read(len(expected)) == expected


def test_file_slices_of_real_files_go_through_sendfile(tmp_path: Path) -> None:
    """Method: many slices, more than a socket takes, so that both ways of sending mix."""
    disk = OsDisk(str(tmp_path))
    content = bytes(range(256)) * 10_000
    disk.open("log", create=True).append([content])
    with running_driver(disk) as running:
        client = running.client()
        client.write(b"slice log 5 %d\n" % (len(content) - 5) * 20)
        expected = (b"<" + content[5:] + b">\n") * 20
        assert client.reader.read(len(expected)) == expected


def test_a_slice_whose_file_was_closed_cuts_the_connection(tmp_path: Path) -> None:
    """Goal: a topic deleted under a slow reader does not stop the node. Method: the reader stalls
    with slices queued, the core's open file is closed, the reader goes on and finds a cut
    stream."""
    disk = OsDisk(str(tmp_path))
    size = 32 << 20
    disk.open("log", create=True).append([bytes(size)])
    with running_driver(disk) as running:
        slow, other = running.client(), running.client()
        slow.write(b"slice log 0 %d\n" % size)
        assert slow.reader.read(1) == b"<"
        running.core.close_files()
        assert other.ask(b"still here") == b"still here"
        try:
            rest = slow.reader.read()
        except ConnectionResetError:
            rest = b""
        assert len(rest) < size
    assert running.driver.exit_code == 0


def test_a_slice_beyond_the_end_of_its_file_cuts_the_connection() -> None:
    disk = MemoryDisk()
    disk.open("log", create=True).append([b"short"])
    with running_driver(disk) as running:
        client, other = running.client(), running.client()
        client.write(b"slice log 0 100\n")
        client.reader.read()
        assert other.ask(b"still here") == b"still here"


def test_a_peer_that_does_not_read_is_not_read_and_harms_no_other() -> None:
    """Goal: unread answers stop the intake. Method: a client floods orders for large answers and
    reads none; while its orders are stuck another client is served; then everything comes."""
    disk = MemoryDisk()
    size = 1 << 20
    disk.open("log", create=True).append([bytes(size)])
    with running_driver(disk) as running:
        deaf, other = running.client(), running.client()
        deaf.socket.settimeout(0.5)
        sent = 0
        order = b"slice log 0 %d\n" % size + b"#" * 65_000 + b"\n"
        try:
            while sent < 400:
                deaf.write(order)
                sent += 1
        except TimeoutError:
            pass
        assert sent < 400, "the flood was taken in whole"
        assert other.ask(b"still here") == b"still here"
        received = sum(len(e.data) for e in running.core.inputs if isinstance(e, Received))
        assert received < 64 << 20
        deaf.socket.settimeout(TIMEOUT_S)
        answer = deaf.reader.read(size + 3)
        assert len(answer) == size + 3


def stalled_of(running: RunningDriver) -> list[bool]:
    """What the core has learned of connections that do not read."""
    return [event.stalled for event in running.core.inputs if isinstance(event, Stalled)]


def test_the_core_learns_who_does_not_read_and_who_does_again() -> None:
    disk = MemoryDisk()
    size = 24 << 20
    disk.open("log", create=True).append([bytes(size)])
    with running_driver(disk) as running:
        client = running.client()
        client.write(b"slice log 0 %d\n" % size)
        assert client.reader.read(1) == b"<"
        wait_until(lambda: stalled_of(running) == [True], TIMEOUT_S, "a stall")
        assert len(client.reader.read(size + 2)) == size + 2
        wait_until(lambda: stalled_of(running)[-1] is False, TIMEOUT_S, "its end")


class CountingDisk(MemoryDisk):
    """Counts the bytes that were read of its files."""

    read_bytes = 0

    def deliver(self, path: str, data: bytes) -> bytes:
        self.read_bytes += len(data)
        return super().deliver(path, data)


def with_small_buffer(sock: socket.socket) -> socket.socket:
    """A peer whose kernel takes little for it."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    return sock


def test_little_is_read_for_a_peer_that_does_not_read() -> None:
    """The kernel would take megabytes for it. Method: pieces of a file that were read."""
    disk = CountingDisk()
    size = 24 << 20
    disk.open("log", create=True).append([bytes(size)])
    with running_driver(disk) as running:
        client = Client(running.port, with_small_buffer)
        client.write(b"slice log 0 %d\n" % size)
        wait_until(lambda: stalled_of(running) == [True], TIMEOUT_S, "a stall")
        assert disk.read_bytes <= 6 * WRITE_HIGH_WATER_BYTES
        assert len(client.reader.read(size + 2)) == size + 2


def test_of_those_who_do_not_read_the_one_goes_that_was_first() -> None:
    """Each leaves more than the high-water mark with the node, which takes two of these."""
    disk = MemoryDisk()
    size = 24 << 20
    disk.open("log", create=True).append([bytes(size)])
    with running_driver(disk) as running:
        running.driver.unsent = Held(2 * WRITE_HIGH_WATER_BYTES)
        first, second = running.client(), running.client()
        for number, client in enumerate((first, second), 1):
            client.write(b"slice log 0 %d\n" % size)
            wait_until(lambda n=number: len(stalled_of(running)) >= n, TIMEOUT_S, "a stall")
        try:
            rest = first.reader.read()
        except ConnectionResetError:
            rest = b""
        assert len(rest) < size
        assert len(second.reader.read(size + 3)) == size + 3
    assert "too much unsent in all" in running.log_text.getvalue()

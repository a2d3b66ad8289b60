"""Goal: the driver carries inputs in and effects out, over real sockets, in order and in time."""

import socket
import time
from pathlib import Path

from tests.unit.runtime.harness import TIMEOUT_S, Client, running_driver
from tidelog.env.effects import Closed, CloseReason, Received, WallClock
from tidelog.env.memory_disk import MemoryDisk
from tidelog.runtime.os_disk import OsDisk


def test_bytes_go_in_and_answers_come_out_in_order() -> None:
    with running_driver() as running:
        client = running.client()
        client.write(b"".join(b"line %d\n" % i for i in range(5000)))
        assert [client.line() for _ in range(5000)] == [b"line %d" % i for i in range(5000)]
        client.close()
    # One tick per turn of the loop, not one per line.
    assert running.core.ticks < 2000


def test_a_stop_request_ends_the_driver_with_the_cores_code() -> None:
    with running_driver() as running:
        client = running.client()
        assert client.ask(b"x") == b"x"
        assert running.stop() == 0
        assert client.closed()
        assert running.driver.exit_message == "asked to"
    assert isinstance(running.core.inputs[0], WallClock)


def test_the_wall_offset_leads_from_monotonic_to_wall_time() -> None:
    with running_driver() as running:
        assert running.client().ask(b"x") == b"x"
    first = running.core.inputs[0]
    assert isinstance(first, WallClock)
    wall_ms = first.offset_ms + time.monotonic_ns() // 1_000_000
    assert abs(wall_ms - time.time_ns() // 1_000_000) < 1000


def test_connections_are_numbered_and_their_ends_reported() -> None:
    with running_driver() as running:
        first, second = running.client(), running.client()
        assert (first.ask(b"a"), second.ask(b"b")) == (b"a", b"b")
        first.close()
        assert second.ask(b"c") == b"c"
        second.socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
        )
        second.close()
        third = running.client()
        assert third.ask(b"d") == b"d"
    assert [(o.connection, o.listener) for o in running.core.opened()] == [
        (1, "PLAINTEXT"),
        (2, "PLAINTEXT"),
        (3, "PLAINTEXT"),
    ]
    closed = {e.connection: e.reason for e in running.core.inputs if isinstance(e, Closed)}
    assert closed[1] is CloseReason.PEER
    assert closed[2] is CloseReason.ERROR


def test_timers_wake_the_core_in_their_order() -> None:
    with running_driver() as running:
        client = running.client()
        began = time.monotonic()
        client.write(b"late 60 second\nlate 20 first\n")
        assert [client.line(), client.line()] == [b"first", b"second"]
        assert time.monotonic() - began >= 0.055


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
    """Goal: a topic deleted under a slow reader is no bug. Method: the reader stalls with slices
    queued, the core's open file is closed, the reader goes on and finds a cut stream."""
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


def test_a_peer_that_does_not_read_is_not_read_and_harms_nobody() -> None:
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


def test_a_bug_in_the_core_stops_the_process_with_code_70() -> None:
    with running_driver() as running:
        client = running.client()
        client.write(b"bug\n")
        assert client.closed()
        assert running.stop() == 70
    assert "AssertionError: the core is broken" in running.log_text.getvalue()
    assert "Traceback" in running.log_text.getvalue()


def test_dials_tell_how_they_went() -> None:
    with running_driver() as target, running_driver() as running:
        client = running.client()
        assert client.ask(b"dial 127.0.0.1 %d" % target.port) == b"connected"
        assert client.ask(b"dial localhost %d" % target.port) == b"connected"
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            port = reserved.getsockname()[1]
            assert client.ask(b"dial 127.0.0.1 %d" % port) == b"REFUSED"
            assert client.ask(b"dial localhost %d" % port) == b"REFUSED"
        assert client.ask(b"dial no-such-host.invalid 9092") == b"ERROR"
        assert [event.connection for event in target.core.opened()] == [1, 2]


def test_one_connection_too_many_is_closed_at_once() -> None:
    with running_driver(max_connections=1) as running:
        first = running.client()
        assert first.ask(b"x") == b"x"
        second = Client(running.port)
        assert second.closed()
        assert first.ask(b"y") == b"y"
    assert len(running.core.opened()) == 1
    assert running.driver.counters.refused == 1

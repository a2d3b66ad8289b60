"""Links that are cut: what arrives, what waits, what breaks."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.chaos.links import CLIENT, HOST, Links, Route
from tidelog.testing.ports import ports_from
from tidelog.testing.waiting import wait_until

NODE = 1
PEER = 2
WAIT_S = 10.0


class Echo:
    """Answers every byte with the same byte."""

    def __init__(self, port: int) -> None:
        self._server = socket.create_server((HOST, port))
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        try:
            while True:
                connection, _ = self._server.accept()
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
        except OSError:
            return

    def _serve(self, connection: socket.socket) -> None:
        try:
            while data := connection.recv(1000):
                connection.sendall(data)
        except OSError:
            return

    def close(self) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for connection in self._connections:
            # A thread may sit in `recv`, which `close` alone does not end.
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._connections.clear()


class Rig:
    """One echoing node behind its proxy. This process is a client, or the node `PEER`."""

    def __init__(self) -> None:
        ((self.port, self.target, _),) = ports_from(0, 1)
        self.echo = Echo(self.target)
        self.pids: dict[int, int] = {}
        self.links = Links([Route(NODE, self.port, self.target)], lambda: self.pids)
        self.links.__enter__()

    def connect(self) -> socket.socket:
        def attempt() -> socket.socket | None:
            try:
                return socket.create_connection((HOST, self.port), WAIT_S)
            except ConnectionRefusedError:
                return None

        return wait_until(attempt, WAIT_S, "open proxy")

    def is_refused(self) -> bool:
        try:
            with socket.create_connection((HOST, self.port), WAIT_S):
                return False
        except ConnectionRefusedError:
            return True

    def close(self) -> None:
        self.links.__exit__()
        self.echo.close()


@pytest.fixture
def rig() -> Iterator[Rig]:
    one = Rig()
    yield one
    one.close()


def answer(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    return connection.recv(1000)


def is_silent(connection: socket.socket) -> bool:
    """Nothing is there; that nothing comes later is what `release` then shows."""
    connection.setblocking(False)
    try:
        connection.recv(1000)
    except BlockingIOError:
        return True
    finally:
        connection.settimeout(WAIT_S)
    return False


def test_an_open_link_carries_both_ways(rig):
    with rig.connect() as connection:
        assert answer(connection, b"a") == b"a"


@pytest.mark.parametrize("link", [(CLIENT, NODE), (NODE, CLIENT)], ids=["requests", "answers"])
def test_what_is_held_arrives_late_and_in_order(rig, link):
    with rig.connect() as connection:
        assert answer(connection, b"a") == b"a"
        rig.links.hold([link])
        connection.sendall(b"b")
        connection.sendall(b"c")
        assert is_silent(connection)
        rig.links.release([link])
        received = b""
        while len(received) < 2:
            received += connection.recv(1000)
        assert received == b"bc"


def test_a_new_connection_waits_for_a_held_link(rig):
    rig.connect().close()
    rig.links.hold([(NODE, CLIENT)])
    with rig.connect() as connection:
        connection.sendall(b"a")
        assert is_silent(connection)
        rig.links.release()
        assert connection.recv(1000) == b"a"


def test_the_link_is_that_of_the_process_that_connects(rig):
    rig.links.hold([(PEER, NODE)])
    with rig.connect() as connection:
        assert answer(connection, b"a") == b"a"
    rig.pids = {PEER: os.getpid()}
    rig.links._known_at = 0.0
    with rig.connect() as connection:
        connection.sendall(b"b")
        assert is_silent(connection)
        rig.links.release()
        assert connection.recv(1000) == b"b"


def test_reset_ends_a_connection_and_not_the_next(rig):
    with rig.connect() as connection:
        assert answer(connection, b"a") == b"a"
        rig.links.reset([(CLIENT, NODE)])
        with pytest.raises(ConnectionResetError):
            connection.recv(1000)
    with rig.connect() as connection:
        assert answer(connection, b"b") == b"b"


def test_refuse_ends_every_connection_until_release(rig):
    rig.connect().close()
    rig.links.refuse([(CLIENT, NODE)])
    # The reset may come before `connect` has returned.
    with pytest.raises(ConnectionResetError), rig.connect() as connection:
        connection.recv(1000)
    rig.links.release()
    with rig.connect() as connection:
        assert answer(connection, b"a") == b"a"


def test_a_connect_is_refused_while_no_node_listens_behind_the_proxy(rig):
    with rig.connect() as connection:
        assert answer(connection, b"a") == b"a"
        rig.echo.close()
        assert connection.recv(1000) == b""
    wait_until(rig.is_refused, WAIT_S, "refusal")
    rig.echo = Echo(rig.target)
    with rig.connect() as connection:
        assert answer(connection, b"b") == b"b"

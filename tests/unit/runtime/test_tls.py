"""Goal: a driver over TLS does what it does without, and a peer that fails leaves one line.

Method: the echo core behind a TLS listener, and blocking clients of the standard library.
"""

import gc
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.runtime.harness import TIMEOUT_S, Client, RunningDriver, running_driver
from tests.unit.tls.stores import client_tls, server_tls
from tidelog.env.effects import Closed, Opened
from tidelog.env.memory_disk import MemoryDisk
from tidelog.runtime.os_disk import OsDisk
from tidelog.runtime.tls import TlsTransport
from tidelog.runtime.tls_contexts import TlsContexts
from tidelog.testing.certificates import Authority
from tidelog.tls.contexts import client_context

AUTHORITY = Authority.create()
LISTENER = "PLAINTEXT"
"""The name of the driver's listener, whatever it speaks."""
CONTEXTS = TlsContexts(
    {LISTENER: server_tls(AUTHORITY, "requested")}, opened=[LISTENER], dialled=[LISTENER]
)


@pytest.fixture
def running() -> Iterator[RunningDriver]:
    with running_driver(tls=CONTEXTS) as running:
        yield running


def tls_client(running: RunningDriver, name: str = "alice") -> Client:
    """A client over TLS, with a certificate if it has a name."""
    context = client_context(client_tls(AUTHORITY, name))
    return Client(running.port, lambda sock: context.wrap_socket(sock, server_hostname="localhost"))


def test_lines_are_echoed_and_the_core_knows_the_certificate(running: RunningDriver) -> None:
    client, other = tls_client(running), tls_client(running, "")
    assert client.ask(b"hello") == b"hello"
    assert other.ask(b"x" * 500_000) == b"x" * 500_000
    known, unknown = running.core.opened()
    assert known.certificate is not None
    assert b"alice" in known.certificate
    assert unknown.certificate is None


def test_a_close_lets_the_answer_leave_first(running: RunningDriver) -> None:
    client = tls_client(running)
    assert client.ask(b"bye") == b"bye"
    assert client.closed()
    assert not any(isinstance(event, Closed) for event in running.core.inputs)


def test_the_end_of_a_peer_is_reported(running: RunningDriver) -> None:
    client, other = tls_client(running), tls_client(running)
    assert client.ask(b"hello") == b"hello"
    client.close()
    while not any(isinstance(event, Closed) for event in running.core.inputs):
        assert other.ask(b"still here") == b"still here"


def test_a_connection_that_ends_is_freed_without_the_collector(running: RunningDriver) -> None:
    """A node's collector does not look at what is old, so a cycle would be there for ever."""
    gc.collect()
    gc.disable()
    try:
        tls_client(running).close()
        other = tls_client(running)
        while not any(isinstance(event, Closed) for event in running.core.inputs):
            assert other.ask(b"still here") == b"still here"
        assert other.ask(b"once more") == b"once more"
        alive = sum(isinstance(each, TlsTransport) for each in gc.get_objects())
    finally:
        gc.enable()
    assert alive == 1


@pytest.mark.parametrize("real", [True, False], ids=["files", "memory"])
def test_file_slices_are_encrypted_too(tmp_path: Path, real: bool) -> None:
    """Method: slices of more than a socket takes, so that some wait for the peer."""
    disk = OsDisk(str(tmp_path)) if real else MemoryDisk()
    content = bytes(range(256)) * 10_000
    disk.open("log", create=True).append([content])
    with running_driver(disk, tls=CONTEXTS) as running:
        client = tls_client(running)
        client.write(b"slice log 5 %d\n" % (len(content) - 5) * 10)
        expected = (b"<" + content[5:] + b">\n") * 10
        assert client.reader.read(len(expected)) == expected


def test_a_driver_dials_over_tls(running: RunningDriver) -> None:
    client = tls_client(running)
    assert client.ask(b"dial localhost %d" % running.port) == b"connected"
    assert running.driver.handshakes.done >= 2, "the client's and the dialled one"


def test_a_dial_that_fails_in_its_handshake_is_an_error(running: RunningDriver) -> None:
    """An error proves nothing about the process at the other end, as a refusal would. Method: the
    other end does not speak TLS, and the certificate does not have the name that was dialled."""
    client = tls_client(running)
    with socket.create_server(("127.0.0.1", 0)) as plain:
        client.write(b"dial 127.0.0.1 %d\n" % plain.getsockname()[1])
        answering, _ = plain.accept()
        with answering:
            answering.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            assert client.line() == b"ERROR"
    assert client.ask(b"dial 127.1 %d" % running.port) == b"ERROR"
    text = running.log_text.getvalue()
    assert text.count("dial handshake: failed") == 2
    assert "mismatch, certificate is not valid for '127.1'" in text


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\0\0\0\x0a\0\x12\0\x03\0\0\0\0\0\0", "the peer does not speak TLS"),
        (b"", "the peer left"),
        (b"\x16\x03\x01", "the peer left"),
    ],
    ids=["kafka", "nothing", "half"],
)
def test_a_peer_that_fails_leaves_one_line_and_no_connection(
    running: RunningDriver, data: bytes, reason: str
) -> None:
    with socket.create_connection(("127.0.0.1", running.port), TIMEOUT_S) as stranger:
        stranger.sendall(data)
        if not reason.endswith("left"):
            stranger.recv(100)
    client = tls_client(running)
    while running.driver.handshakes.failed == 0:
        assert client.ask(b"still here") == b"still here"
    assert client.ask(b"still here") == b"still here"
    lines = [line for line in running.log_text.getvalue().splitlines() if "handshake" in line]
    assert len(lines) == 1
    assert f"handshake: failed ({reason}) peer=127.0.0.1" in lines[0]
    assert len([event for event in running.core.inputs if isinstance(event, Opened)]) == 1


def test_a_client_without_the_authority_names_it(running: RunningDriver) -> None:
    context = client_context(client_tls(Authority.create()))
    with pytest.raises(ssl.SSLCertVerificationError):
        Client(running.port, lambda sock: context.wrap_socket(sock, server_hostname="localhost"))
    client = tls_client(running)
    while running.driver.handshakes.failed == 0:
        assert client.ask(b"still here") == b"still here"
    assert "alert unknown ca" in running.log_text.getvalue()


def test_connections_in_their_handshake_count_against_the_limit() -> None:
    with running_driver(max_connections=1, tls=CONTEXTS) as running:
        with socket.create_connection(("127.0.0.1", running.port), TIMEOUT_S) as silent:
            with socket.create_connection(("127.0.0.1", running.port), TIMEOUT_S) as second:
                assert second.recv(1) == b""
            silent.shutdown(socket.SHUT_WR)
            assert silent.recv(1) == b""
        assert tls_client(running).ask(b"hello") == b"hello"

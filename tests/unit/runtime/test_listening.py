"""Goal: what cannot be bound is one message with a hint, and leaves nothing bound."""

import errno
import socket

import pytest

from tidelog.errors import UsageError
from tidelog.limits import WRITE_HIGH_WATER_BYTES
from tidelog.model import Endpoint
from tidelog.runtime.listening import bind, close_all, listen_failure


def test_a_host_and_every_interface_can_be_bound() -> None:
    for host in ("127.0.0.1", "", "localhost"):
        sockets = bind(Endpoint("PLAINTEXT", host, 0))
        assert sockets
        assert all(not sock.getblocking() for sock in sockets)
        close_all(sockets)


def test_a_port_in_use_names_the_listener_and_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError) as caught:
            bind(Endpoint("PLAINTEXT", "127.0.0.1", port))
    assert f"port `{port}` of listener `PLAINTEXT` is in use" in caught.value.message
    assert f"sport = :{port}" in caught.value.hint


def test_a_foreign_address_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be bound"):
        bind(Endpoint("PLAINTEXT", "192.0.2.1", 9092))
    with pytest.raises(UsageError, match="cannot be bound"):
        bind(Endpoint("PLAINTEXT", "no-such-host.invalid", 9092))


def test_a_privileged_port_has_a_hint_of_its_own() -> None:
    failure = listen_failure(Endpoint("P", "", 80), OSError(errno.EACCES, "denied"))
    assert "above 1023" in failure.hint


def test_a_listener_can_be_bound_again_after_its_connections_closed() -> None:
    """Goal: a restarted node finds its port although old connections linger in TIME_WAIT."""
    first = bind(Endpoint("P", "127.0.0.1", 0))[0]
    first.listen()
    port = first.getsockname()[1]
    client = socket.create_connection(("127.0.0.1", port))
    first.setblocking(True)
    accepted, _ = first.accept()
    accepted.close()
    client.close()
    first.close()
    close_all(bind(Endpoint("P", "127.0.0.1", port)))


def test_accepted_sockets_have_the_options_of_their_listener() -> None:
    """Small answers leave at once, dead peers are found, and the kernel takes no megabytes."""
    (listener,) = bind(Endpoint("PLAINTEXT", "127.0.0.1", 0))
    with listener:
        listener.listen()
        listener.setblocking(True)
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            kept = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT)
            assert kept == WRITE_HIGH_WATER_BYTES

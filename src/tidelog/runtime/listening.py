"""Binding listeners before anything else is touched: a port in use leaves no other trace."""

import errno
import socket
from typing import Any

from tidelog.errors import UsageError
from tidelog.model import Endpoint
from tidelog.runtime.connection import set_options


def bind(endpoint: Endpoint) -> list[socket.socket]:
    """Bound, not yet listening sockets for every address of an endpoint. An empty host is every
    interface. Raises `UsageError` when the port is taken or the host is not one of this
    machine's."""
    sockets: list[socket.socket] = []
    try:
        for family, address in _addresses(endpoint):
            sockets.append(_bind_one(family, address))
    except OSError as error:
        close_all(sockets)
        raise listen_failure(endpoint, error) from None
    return sockets


def close_all(sockets: list[socket.socket]) -> None:
    """Closes sockets that will not be used."""
    for sock in sockets:
        sock.close()


def listen_failure(endpoint: Endpoint, error: OSError) -> UsageError:
    """The error for the operator when an endpoint cannot be bound or listened on."""
    if error.errno == errno.EADDRINUSE:
        return UsageError(
            f"port `{endpoint.port}` of listener `{endpoint.listener}` is in use",
            f"stop the process that has it (`ss -ltnp 'sport = :{endpoint.port}'`), "
            "or choose another port in `listeners` (`--base-port` of `tidelog up`)",
        )
    if error.errno == errno.EACCES:
        return UsageError(
            f"port `{endpoint.port}` of listener `{endpoint.listener}` needs privileges",
            "choose a port above 1023 in `listeners`",
        )
    return UsageError(
        f"listener `{endpoint}` cannot be bound: {error.strerror or error}",
        "use a host name or address of this machine in `listeners`, or none for every interface",
    )


def _addresses(endpoint: Endpoint) -> list[tuple[socket.AddressFamily, Any]]:
    # Any: an address is a pair or a quadruple by family, and goes back to the socket as it came.
    found = socket.getaddrinfo(
        endpoint.host or None, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    addresses: list[tuple[socket.AddressFamily, Any]] = list(
        dict.fromkeys((family, address) for family, _, _, _, address in found)
    )
    if len(addresses) == 1:
        return addresses
    # A name with addresses of both families on a machine that has only one of them in use.
    return [pair for pair in addresses if pair[0] == socket.AF_INET or _has_ipv6()]


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def _bind_one(family: socket.AddressFamily, address: Any) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        set_options(sock)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock

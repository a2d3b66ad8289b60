"""Ports for a cluster's nodes.

Free ports are taken from below the range from which the kernel gives ports to outgoing
connections: a node that is down for a while must find its own port free when it comes back.
"""

import random
import socket
from typing import Final, NamedTuple

from tidelog.errors import UsageError

CONTROLLER_PORT_DISTANCE: Final = 100
"""With a base port, how far a node's controller port is from its broker port."""
PEER_PORT_DISTANCE: Final = 200
"""And the port at which a protected node is called by the other brokers."""

_FREE_FROM: Final = 20_000
_FREE_TO: Final = 32_000
_HIGHEST: Final = 65_535


class NodePorts(NamedTuple):
    """The ports of one node."""

    broker: int
    controller: int
    peer: int
    """For other brokers; used by protected clusters."""


def ports_from(base_port: int, count: int) -> list[NodePorts]:
    """Ports for `count` nodes: the given one and those behind it, or free ones for 0.

    Raises `UsageError` when they do not fit.
    """
    if base_port == 0:
        return _free_ports(count)
    last = base_port + PEER_PORT_DISTANCE + count - 1
    if base_port < 1 or last > _HIGHEST or count > CONTROLLER_PORT_DISTANCE:
        raise UsageError(
            f"the ports of {count} nodes do not fit from `{base_port}` on",
            f"use a base port below {_HIGHEST - PEER_PORT_DISTANCE - count}, "
            "or 0 for any free ports",
        )
    return [
        NodePorts(port, port + CONTROLLER_PORT_DISTANCE, port + PEER_PORT_DISTANCE)
        for port in range(base_port, base_port + count)
    ]


def _free_ports(count: int) -> list[NodePorts]:
    free: list[int] = []
    candidates = list(range(_FREE_FROM, _FREE_TO))
    # Not the core's seeded generator: two clusters that start together must not agree.
    random.SystemRandom().shuffle(candidates)
    for port in candidates:
        if _is_free(port):
            free.append(port)
        if len(free) == 3 * count:
            free.sort()
            each = zip(free[::3], free[1::3], free[2::3], strict=True)
            return [NodePorts(*ports) for ports in each]
    raise UsageError(
        f"no free ports between {_FREE_FROM} and {_FREE_TO}", "give a base port explicitly"
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True

"""Goal: nodes get ports by rule or free ones, all different, outside the kernel's own range."""

import socket

import pytest

from tidelog.errors import UsageError
from tidelog.testing.ports import NodePorts, ports_from


def test_ports_follow_the_base_port() -> None:
    assert ports_from(9092, 3) == [
        NodePorts(9092, 9192, 9292),
        NodePorts(9093, 9193, 9293),
        NodePorts(9094, 9194, 9294),
    ]


def test_free_ports_are_free_and_different() -> None:
    ports = [port for each in ports_from(0, 5) for port in each]
    assert len(set(ports)) == 15
    assert all(20_000 <= port < 32_000 for port in ports)
    with socket.create_server(("127.0.0.1", ports[0])):
        assert ports[0] not in {port for each in ports_from(0, 5) for port in each}


@pytest.mark.parametrize(("base_port", "count"), [(-1, 1), (65_500, 3), (70_000, 1), (9092, 101)])
def test_ports_that_do_not_fit_are_refused(base_port: int, count: int) -> None:
    with pytest.raises(UsageError, match="do not fit"):
        ports_from(base_port, count)

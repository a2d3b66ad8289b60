"""Goal: limits of addresses and listeners are read as Kafka reads them."""

import pytest

from tidelog.config.connection_limits import resolve_connections
from tidelog.config.values import ConnectionsConfig
from tidelog.errors import UsageError

NONE = 2**31 - 1


def test_addresses_and_listeners_may_have_limits_of_their_own() -> None:
    found = resolve_connections(
        {
            "max.connections.per.ip.overrides": "10.0.0.7:100, ::1:0",
            "listener.name.external.max.connections": "7",
            "listener.name.external.max.connection.creation.rate": "3",
            "listener.name.other.max.connection.creation.rate": "4",
        },
        ConnectionsConfig(per_ip=0),
    )
    assert found.per_ip_overrides == {"10.0.0.7": 100, "::1": 0}
    assert found.listeners == {"EXTERNAL": (7, 3), "OTHER": (NONE, 4)}


@pytest.mark.parametrize(
    ("settings", "per_ip", "problem"),
    [
        ({"max.connections.per.ip.overrides": "10.0.0.7"}, 1, "has no number"),
        ({"max.connections.per.ip.overrides": "a:-1"}, 1, "not a number of connections"),
        ({"listener.name.x.max.connections": "many"}, 1, "not a number of connections"),
        ({}, 0, "no client can connect"),
    ],
)
def test_bad_limits_are_refused(settings: dict[str, str], per_ip: int, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        resolve_connections(settings, ConnectionsConfig(per_ip=per_ip))

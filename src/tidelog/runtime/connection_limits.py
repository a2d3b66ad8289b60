"""Which accepted connections a node takes (`max.connections*`).

A connection that goes beyond a limit is accepted and closed at once. Kafka's acceptor waits in most
cases instead, and clients hang; here a client learns it, and the node is free for the others.

- `max.connections` of the node, which does not hold for the listeners between nodes where clients
  have another one, and that of a listener;
- `max.connections.per.ip` and its overrides, over all listeners;
- `max.connection.creation.rate` of the node and of a listener: so many in any second;
- what the process has descriptors for.

Connections count from the accept to the end of their socket, those included whose TLS handshake
has not ended.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidelog.config import NodeConfig

_WITHOUT: Final = 2**31 - 1
_SECOND_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class Limit:
    """Of a node or a listener."""

    most: int = _WITHOUT
    rate: int = _WITHOUT
    """New ones a second."""


class _Held(NamedTuple):
    """One connection."""

    listener: str
    host: str


@dataclass(frozen=True, slots=True)
class LimitRules:
    """What the configuration asks for."""

    capacity: int
    """Connections that the process has descriptors for."""
    node: Limit = Limit()
    listeners: Mapping[str, Limit] = field(default_factory=dict)
    exempt: frozenset[str] = frozenset()
    """Listeners for which `node.most` does not hold."""
    per_host: int = _WITHOUT
    hosts: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of_node(cls, config: NodeConfig, capacity: int) -> "LimitRules":
        """Those of a node's configuration."""
        limits = config.connections
        return cls(
            capacity,
            Limit(limits.most, limits.creation_rate),
            {name: Limit(*pair) for name, pair in limits.listeners.items()},
            config.listeners_between_nodes,
            limits.per_ip,
            limits.per_ip_overrides,
        )


class ConnectionLimits:
    """Counts accepted connections."""

    def __init__(self, rules: LimitRules, clock_ms: Callable[[], int]) -> None:
        self._rules = rules
        self._clock_ms = clock_ms
        # What is open, by the driver's ids.
        self._held: dict[int, _Held] = {}
        # How many of them each address and each listener has.
        self._by_host: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        # When connections of the last second came, by listener; "" is the node. Only with a rate.
        self._recent: dict[str, deque[int]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def admit(self, connection_id: int, listener: str, host: str) -> bool:
        """Whether a new connection stays; one that was admitted before does."""
        if connection_id in self._held:
            return True
        if not (self._has_room(listener, host) and self._in_time(listener)):
            return False
        self._held[connection_id] = _Held(listener, host)
        self._by_host[host] += 1
        self._by_listener[listener] += 1
        return True

    def release(self, connection_id: int) -> None:
        """A connection is gone; of one that was not admitted this does nothing."""
        held = self._held.pop(connection_id, None)
        if held is None:
            return
        self._by_listener[held.listener] -= 1
        self._by_host[held.host] -= 1
        if not self._by_host[held.host]:
            del self._by_host[held.host]

    def _has_room(self, listener: str, host: str) -> bool:
        rules = self._rules
        own = rules.listeners.get(listener, Limit())
        counted = sum(n for name, n in self._by_listener.items() if name not in rules.exempt)
        return (
            len(self._held) < rules.capacity
            and (listener in rules.exempt or counted < rules.node.most)
            and self._by_listener[listener] < own.most
            and self._by_host[host] < rules.hosts.get(host, rules.per_host)
        )

    def _in_time(self, listener: str) -> bool:
        """Whether one more is within the rates; counts it if so."""
        own = self._rules.listeners.get(listener, Limit())
        rates = [("", self._rules.node.rate), (listener, own.rate)]
        now = self._clock_ms()
        limited = [(name, rate) for name, rate in rates if rate != _WITHOUT]
        for name, rate in limited:
            recent = self._recent.setdefault(name, deque())
            while recent and recent[0] <= now - _SECOND_MS:
                recent.popleft()
            if len(recent) >= rate:
                return False
        for name, _ in limited:
            self._recent[name].append(now)
        return True

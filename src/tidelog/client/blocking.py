"""The blocking shell: sockets, the clock, pauses.

For programs that do one thing after another: commands, tests, Spark tasks. Not for several threads.
"""

import ssl
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from tidelog.client.core.calls import Call
from tidelog.client.core.errors import (
    POLL_S,
    AdminError,
    AuthenticationFailed,
    Retry,
    TryAgain,
    Unreachable,
)
from tidelog.client.core.exchange import Exchange
from tidelog.client.core.values import Address
from tidelog.client.security_options import PLAINTEXT, ClientSecurity, tls_failure
from tidelog.wire.api import ApiKey

T = TypeVar("T")

ATTEMPT_S: Final = 1.5
"""How long one broker may take over what every broker can answer at once."""


def now_ms() -> int:
    """The monotonic clock."""
    return time.monotonic_ns() // 1_000_000


def retrying(attempt: Callable[[], T], retry: Retry) -> T:
    """Repeats an attempt while it fails in ways that pass; raises the last error."""
    while True:
        try:
            return attempt()
        except (TryAgain, Unreachable, AdminError) as error:
            pause_s = retry.pause_after(error, now_ms())
        time.sleep(pause_s)


class Connection:
    """One connection to one broker, whose API versions are known."""

    def __init__(
        self,
        address: Address,
        client_id: str,
        timeout_s: float,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        """Connects; raises `Unreachable`."""
        # Where it leads.
        self.address = address
        # The protocol; what is under way is known there.
        self._exchange = Exchange(address, client_id, security.login(client_id))
        self._socket = security.connect(address, timeout_s)
        try:
            while (greeting := self._exchange.greeting()) is not None:
                self._send(greeting)
                self.receive()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the connection; may be called again."""
        self._socket.close()

    def serves(self, key: ApiKey) -> bool:
        """Whether the broker serves the API in any version."""
        return self._exchange.serves(key)

    def call(self, call: Call[T], timeout_s: float | None = None) -> T:
        """Sends a call and waits for its answer. Nothing else may be under way. Raises
        `Unreachable`."""
        if timeout_s is not None:
            self._socket.settimeout(max(timeout_s, 0.001))
        self.send(call)
        answer: T = self.receive()
        return answer

    def send(self, call: Call[Any]) -> None:
        """Sends a call; its answer comes behind those that are under way. Raises
        `Unreachable`."""
        self._send(self._exchange.send(call))

    def receive(self) -> Any:
        """The answer to the oldest call under way. Raises `Unreachable`."""
        exchange, frame = self._exchange, None
        try:
            while frame is None:
                frame = exchange.received(self._socket.recv_into(exchange.buffer()))
        except OSError as error:
            raise self._lost(error) from None
        return exchange.answer(frame)

    def _send(self, framed: bytes) -> None:
        try:
            self._socket.sendall(framed)
        except OSError as error:
            raise self._lost(error) from None

    def _lost(self, error: OSError) -> Unreachable | AuthenticationFailed:
        if isinstance(error, ssl.SSLError):
            # With TLS 1.3 a client learns only now that its certificate was refused.
            return tls_failure(self.address, error)
        return Unreachable(f"broker `{self.address}` did not answer: {error}")


class Brokers:
    """Connections to the brokers of one cluster, opened when they are first used."""

    def __init__(
        self,
        bootstrap: Iterable[Address],
        *,
        client_id: str,
        timeout_s: float,
        attempt_s: float = ATTEMPT_S,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        # The name that requests carry.
        self._client_id = client_id
        # Where to ask what any broker can answer, in this order.
        self._order = list(bootstrap)
        # How long one question may take, retries included.
        self.timeout_s = timeout_s
        # How long one broker may take to connect, or over what every broker can answer.
        self._attempt_s = min(attempt_s, timeout_s)
        # What connections obey.
        self._security = security
        # One open connection per address.
        self._connections: dict[Address, Connection] = {}

    def close(self) -> None:
        """Ends all connections; what is asked next opens new ones."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def prefer(self, addresses: Iterable[Address]) -> None:
        """Puts addresses in front of those that are asked first."""
        self._order = list(dict.fromkeys((*addresses, *self._order)))

    def connection(self, address: Address) -> Connection:
        """The open connection to a broker, or a new one. Raises `Unreachable`."""
        if address not in self._connections:
            self._connections[address] = Connection(
                address, self._client_id, self._attempt_s, self._security
            )
        return self._connections[address]

    def drop(self, address: Address) -> None:
        """Ends the connection to a broker, if there is one."""
        if address in self._connections:
            self._connections.pop(address).close()

    def node(self, address: Address, call: Call[T]) -> T:
        """The answer of one broker; raises `Unreachable`."""
        return self._use(address, lambda connection: connection.call(call, self.timeout_s))

    def first(self, call: Call[T]) -> T:
        """The answer of the first broker that gives one within one attempt. Raises
        `Unreachable`."""
        return self.first_use(lambda connection: connection.call(call, self._attempt_s))

    def first_use(self, use: Callable[[Connection], T]) -> T:
        """The result of the first connection that works; a broker whose connection does not is
        asked last from then on. Raises `Unreachable` when none works."""
        failures = []
        for address in list(self._order):
            try:
                return self._use(address, use)
            except Unreachable as error:
                failures.append(str(error))
                self._order.remove(address)
                self._order.append(address)
        raise Unreachable("; ".join(failures))

    def any(self, call: Call[T], *, attempt_s: float | None = None) -> T:
        """The answer of the first broker that gives one within `attempt_s`. Raises `Unreachable`
        at the deadline."""
        attempt_s = self._attempt_s if attempt_s is None else attempt_s
        retry = Retry(now_ms(), self.timeout_s)

        def ask(connection: Connection) -> T:
            return connection.call(call, max(POLL_S, min(attempt_s, retry.left_s(now_ms()))))

        return retrying(lambda: self.first_use(ask), retry)

    def _use(self, address: Address, use: Callable[[Connection], T]) -> T:
        try:
            return use(self.connection(address))
        except Unreachable:
            # Half an answer may still be on its way.
            self.drop(address)
            raise

"""The shell for an event loop: one connection over asyncio's streams."""

import asyncio
import ssl
from typing import Any, Final, Self, TypeVar

from tidelog.client.core.calls import Call
from tidelog.client.core.errors import Unreachable
from tidelog.client.core.exchange import Exchange
from tidelog.client.core.values import Address
from tidelog.client.security_options import PLAINTEXT, ClientSecurity, tls_failure

T = TypeVar("T")

TIMEOUT_S: Final = 10.0
"""How long an answer may take."""


class StreamConnection:
    """One connection to one broker, one call at a time."""

    def __init__(
        self, exchange: Exchange, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        # The protocol.
        self._exchange = exchange
        # Both halves of the socket.
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(
        cls, address: Address, client_id: str, security: ClientSecurity = PLAINTEXT
    ) -> Self:
        """Connects; raises `Unreachable`."""
        context = security.context
        name = address.host if context is not None else None
        try:
            async with asyncio.timeout(TIMEOUT_S):
                reader, writer = await asyncio.open_connection(
                    *address, ssl=context, server_hostname=name
                )
        except OSError as error:
            if isinstance(error, ssl.SSLError):
                raise tls_failure(address, error) from None
            raise Unreachable(f"broker `{address}` cannot be reached: {error}") from None
        login = await asyncio.to_thread(security.login, client_id)
        exchange = Exchange(address, client_id, login)
        connection = cls(exchange, reader, writer)
        try:
            while (greeting := exchange.greeting()) is not None:
                await connection._exchanged(greeting)
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Ends the connection."""
        self._writer.close()

    async def call(self, call: Call[T]) -> T:
        """Sends a call and waits for its answer. Raises `Unreachable`."""
        answer: T = await self._exchanged(self._exchange.send(call))
        return answer

    async def _exchanged(self, framed: bytes) -> Any:
        exchange, frame = self._exchange, None
        try:
            async with asyncio.timeout(TIMEOUT_S):
                self._writer.write(framed)
                await self._writer.drain()
                while frame is None:
                    buffer = exchange.buffer()
                    data = await self._reader.read(len(buffer))
                    buffer[: len(data)] = data
                    frame = exchange.received(len(data))
        except OSError as error:
            raise Unreachable(f"broker `{exchange.address}` did not answer: {error}") from None
        return exchange.answer(frame)

"""TLS between a socket's transport and a `Connection`, which sees plain bytes only.

To the loop this is a protocol, to the `Connection` a transport. The connection gets this
transport when the handshake has ended, and the core learns of it then, with the peer's certificate.
Without TLS nothing of this is in the way.

All share one buffer for encrypted bytes, as connections do for plain ones. It is smaller by more
than a record of TLS, so what is read at once and the rest of a record before it fit into the
connection's buffer decrypted, and a paused connection has nothing left to be delivered.

Invariant: a handshake ends once, by success, by `cut`, or by the loss of the socket's transport.
Only after success is anything of the connection called.
"""

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any, Final, Protocol

from tidelog.env.disk import Buffer
from tidelog.env.effects import CloseReason
from tidelog.limits import READ_BUFFER_BYTES, WRITE_HIGH_WATER_BYTES
from tidelog.runtime.connection import Connection
from tidelog.runtime.handshakes import Handshakes
from tidelog.runtime.tls_filter import TlsFilter, reason_of

_RECORD_BYTES: Final = 32 << 10
"""More than the largest record of TLS with what is around it."""


class Gate(Protocol):
    """The driver, as it sees connections that are in their handshake."""

    handshakes: Handshakes

    def may_begin(self, connection: Connection) -> bool:
        """Whether an accepted connection stays, by the limits of connections."""

    def on_handshake_failed(self, connection: Connection, reason: str) -> None:
        """Its handshake failed; the end of its transport follows."""

    def on_never_opened(self, connection: Connection) -> None:
        """The transport is gone before the handshake was done."""


class TlsTransport(asyncio.BufferedProtocol):
    """One connection's TLS."""

    __slots__ = ("_connection", "_filter", "_gate", "_raw", "_wants_reading", "host", "settled")

    _shared = memoryview(bytearray(READ_BUFFER_BYTES - _RECORD_BYTES))

    def __init__(
        self, connection: Connection, gate: Gate, context: ssl.SSLContext, dialled: str | None
    ) -> None:
        """`dialled` is the host at the other end of a connection that this node asked for."""
        # Who gets the plain bytes.
        self._connection = connection
        self._gate = gate
        self._filter = TlsFilter(context, dialled)
        # The socket's transport.
        self._raw: Any = None
        # Whether the connection wants to be read, apart from the handshake.
        self._wants_reading = True
        # The peer's address; "" when the peer was gone at once.
        self.host = ""
        # How the handshake ended: `None` when it is done.
        self.settled: asyncio.Future[CloseReason | None] = (
            asyncio.get_running_loop().create_future()
        )

    @property
    def is_accepted(self) -> bool:
        """Whether a peer opened it, and not this node."""
        return self._connection.listener is not None

    # What the loop calls ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = transport
        peer = transport.get_extra_info("peername")
        self.host = self._connection.peer_host = str(peer[0]) if peer else ""
        self._raw.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        if not self._gate.may_begin(self._connection):
            self._settle(CloseReason.ERROR)
            self._raw.abort()
            return
        self._gate.handshakes.begin(self)
        if not self.is_accepted:
            self._gate.handshakes.on_ready(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._connection.part_of(self._shared)

    def buffer_updated(self, nbytes: int) -> None:
        self._filter.feed(self._shared[:nbytes])
        if self._is_open:
            self._connection.maybe_rest(nbytes)
            self._deliver()
        elif not self.settled.done():
            self._raw.pause_reading()
            self._gate.handshakes.on_ready(self)

    def pause_writing(self) -> None:
        if self._is_open:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        if self._is_open:
            self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_open:
            self._connection.connection_lost(exc)
        else:
            if not self.settled.done():
                self._fail("the peer left")
            self._gate.on_never_opened(self._connection)
        # Both would keep each other: the collector does not look at what is old (`process.py`).
        del self._connection

    # The handshake ----------------------------------------------------------------------------

    @property
    def _is_open(self) -> bool:
        """Whether the handshake is done."""
        return self.settled.done() and self.settled.result() is None

    def step(self) -> None:
        """Takes the handshake further."""
        try:
            done = self._filter.handshake()
        except ssl.SSLError as error:
            self.cut(reason_of(error))
            return
        self._write_out()
        if done:
            self._open()
        else:
            self._raw.resume_reading()

    def cut(self, reason: str) -> None:
        """Ends a connection that is in its handshake; the peer gets what TLS has to say."""
        self._fail(reason)
        self._write_out()
        self._raw.close()

    def _open(self) -> None:
        self._gate.handshakes.end(self, done=True)
        self._settle(None)
        self._connection.connection_made(self)
        if self._wants_reading and not self._raw.is_closing():
            self._raw.resume_reading()
        self._deliver()

    def _fail(self, reason: str) -> None:
        self._gate.handshakes.end(self, done=False)
        self._settle(CloseReason.ERROR)
        self._gate.on_handshake_failed(self._connection, reason)

    def _settle(self, outcome: CloseReason | None) -> None:
        if not self.settled.done():
            self.settled.set_result(outcome)

    # Plain bytes ------------------------------------------------------------------------------

    def _deliver(self) -> None:
        """Hands what has arrived to the connection."""
        connection, size = self._connection, 0
        try:
            size = self._filter.read_into(connection.plain)
            ends = self._filter.has_ended
        except ssl.SSLError:
            # None of TLS; the peer gets an alert.
            ends = True
        if self._filter.has_outgoing:
            self._write_out()
        if size:
            connection.deliver(size)
        if ends:
            self._raw.close()

    def _write_out(self) -> None:
        if self._filter.has_outgoing and not self._raw.is_closing():
            self._raw.write(self._filter.take())

    # What the connection calls, as a transport's --------------------------------------------

    def get_extra_info(self, name: str) -> Any:
        """As asyncio's TLS: `ssl_object` is there, and `peer_certificate` in DER."""
        match name:
            case "ssl_object":
                return self._filter
            case "peer_certificate":
                return self._filter.certificate
            case _:
                return self._raw.get_extra_info(name)

    def set_write_buffer_limits(self, high: int) -> None:
        self._raw.set_write_buffer_limits(high=high)

    def get_write_buffer_size(self) -> int:
        return int(self._raw.get_write_buffer_size())

    def write(self, data: Buffer) -> None:
        self.writelines([data])

    def writelines(self, chunks: Sequence[Buffer]) -> None:
        self._raw.writelines(self._filter.seal(chunks))

    def is_closing(self) -> bool:
        return bool(self._raw.is_closing())

    def is_reading(self) -> bool:
        return self._wants_reading

    def pause_reading(self) -> None:
        self._wants_reading = False
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._wants_reading = True
        self._raw.resume_reading()

    def close(self) -> None:
        """Closes after what was written has left."""
        if not self._raw.is_closing():
            self._filter.shut_down()
            self._write_out()
            self._raw.close()

    def abort(self) -> None:
        """Cuts the connection."""
        if self._raw is not None:
            self._raw.abort()

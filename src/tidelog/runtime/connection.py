"""One TCP connection between the loop and the core.

Reading: all connections share one buffer, because libuv asks for a buffer, fills it and reports
it without running anything in between. The core copies what it keeps. libuv would go on for as long
as the buffer is full each time, so one that fills it rests until the others have been read. So does
one that brings much in a turn that has read enough; accepted ones then go on in turn, a few in each
turn of the loop (`Rests`), because clients may be many.

Writing: bytes go to the transport as they are; a file slice goes out by `sendfile` while the
socket takes it, else in pieces through the transport. What the peer does not take waits in
`_outbox`, slices unread, and the connection is not read meanwhile: a peer that does not read its
replies cannot make us take more requests. The kernel would take megabytes for such a peer, each
of which is read, encrypted and copied for nothing, so it has a bound too. What all such peers
together hold is bounded by their owner (`env/held.py`).

TLS, where a listener has it, is between this and the socket (`runtime/tls.py`): the transport is
another one then, which encrypts, and file slices always go out in pieces.

Invariants: chunks leave in the order of `send`; after `close` nothing is delivered to the core;
reading is on exactly when neither the core nor the unsent bytes hold it, and it does not rest.
"""

import asyncio
import os
import socket
import sys
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, Protocol

from tidelog.env.disk import FileSlice
from tidelog.env.effects import Chunk, CloseReason
from tidelog.errors import StorageError
from tidelog.limits import READ_BUFFER_BYTES, WRITE_HIGH_WATER_BYTES
from tidelog.runtime.rests import Rests

_PIECE_BYTES: Final = 256 << 10
_HAS_SENDFILE: Final = sys.platform == "linux"
_UNSENT_IN_KERNEL: Final = getattr(socket, "TCP_NOTSENT_LOWAT", None)
"""The option that bounds what the kernel takes beyond what it may send; not every system has it."""


def set_options(sock: socket.socket) -> None:
    """Of a socket before it listens, or dials; accepted ones have those of their listener."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if _UNSENT_IN_KERNEL is not None:
        sock.setsockopt(socket.IPPROTO_TCP, _UNSENT_IN_KERNEL, WRITE_HIGH_WATER_BYTES)


class Owner(Protocol):
    """The driver, as its connections see it."""

    rests: Rests

    def on_made(self, connection: "Connection") -> None:
        """The transport is there."""

    def on_received(self, connection: "Connection", data: memoryview) -> None:
        """Bytes arrived; the view is reused after the call."""

    def on_unsent(self, connection: "Connection", size_bytes: int, *, moved: bool) -> None:
        """So much waits because the peer does not take it; 0: nothing does any more. `moved`: it
        has taken something."""

    def on_lost(self, connection: "Connection", reason: CloseReason) -> None:
        """The transport is gone, for whatever reason, our own close included."""


class Connection(asyncio.BufferedProtocol):
    """The protocol object of one transport."""

    __slots__ = (
        "_closing",
        "_held_by_core",
        "_is_stalled",
        "_outbox",
        "_owner",
        "_paused_writing",
        "_rests",
        "_sends_files",
        "_transport",
        "_unsent_bytes",
        "certificate",
        "connection_id",
        "known_to_core",
        "listener",
        "peer_host",
    )

    plain = memoryview(bytearray(READ_BUFFER_BYTES))
    """Where every connection's plain bytes land; see the module's text."""

    def __init__(self, owner: Owner, connection_id: int, listener: str | None) -> None:
        self._owner = owner
        # Positive for accepted ones, the core's negative number for those it asked for.
        self.connection_id = connection_id
        # The listener it came in by; None for those the core asked for.
        self.listener = listener
        # The peer's address, for log lines; "" when the peer was gone at once.
        self.peer_host = ""
        # The peer's certificate in DER, if TLS checked one.
        self.certificate: bytes | None = None
        # Whether the kernel may send files by itself; not through TLS.
        self._sends_files = _HAS_SENDFILE
        # Whether the core still expects inputs from it: false once it has closed it.
        self.known_to_core = True
        self._transport: Any = None
        # Chunks that the transport has not taken yet; file slices are unread.
        self._outbox: deque[Chunk] = deque()
        # Bytes in memory of `_outbox`.
        self._unsent_bytes = 0
        # Whether the transport asked to stop writing.
        self._paused_writing = False
        # Whether it has had its share of this turn of the loop.
        self._rests = False
        # Whether the owner knows that something waits.
        self._is_stalled = False
        # Whether the core paused reading.
        self._held_by_core = False
        # Close the transport as soon as the outbox is empty.
        self._closing = False

    # What the loop calls ----------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Reports to the driver."""
        self._transport = transport
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        self.certificate = transport.get_extra_info("peer_certificate")
        if transport.get_extra_info("ssl_object") is not None:
            self._sends_files = False
        peer = transport.get_extra_info("peername")
        self.peer_host = str(peer[0]) if peer else ""
        self._owner.on_made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.part_of(self.plain)

    def buffer_updated(self, nbytes: int) -> None:
        self.maybe_rest(nbytes)
        self.deliver(nbytes)

    # Reading, for TLS as well -----------------------------------------------------------------

    def part_of(self, buffer: memoryview) -> memoryview:
        """Where the next bytes from the socket go."""
        return self._owner.rests.part_of(buffer, is_client=self.listener is not None)

    def maybe_rest(self, size_bytes: int) -> None:
        """So many bytes came from the socket: it rests if that is much."""
        rests = self._owner.rests
        if rests.is_due(size_bytes):
            self._rests = True
            self._update_reading()
            rests.begin(self._end_rest, is_client=self.listener is not None)

    def deliver(self, size_bytes: int) -> None:
        """So many plain bytes are in the buffer."""
        if self.known_to_core:
            self._owner.on_received(self, self.plain[:size_bytes])

    def _end_rest(self) -> None:
        self._rests = False
        self._update_reading()

    def pause_writing(self) -> None:
        """The transport holds more than the high-water mark."""
        self._paused_writing = True
        self._update_reading()

    def resume_writing(self) -> None:
        """The transport has room again."""
        self._paused_writing = False
        self._drain(moved=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._drop_unsent()
        self._owner.on_lost(self, CloseReason.PEER if exc is None else CloseReason.ERROR)

    # What the driver calls --------------------------------------------------------------------

    def send(self, chunks: Sequence[Chunk]) -> None:
        """Sends chunks after all that was sent before."""
        in_memory = [chunk for chunk in chunks if not isinstance(chunk, FileSlice)]
        size = sum(map(len, in_memory))
        waits = self._outbox or self._paused_writing
        if waits or size > WRITE_HIGH_WATER_BYTES or len(in_memory) < len(chunks):
            self._outbox.extend(chunks)
            self._unsent_bytes += size
            self._drain()
        elif not self._transport.is_closing():
            # The usual case: nothing waits, and everything is in memory.
            self._transport.writelines(in_memory)

    def hold_reading(self, held: bool) -> None:
        """The core pauses or resumes reading."""
        self._held_by_core = held
        self._update_reading()

    def close(self) -> None:
        """Closes after what was sent has left; the core receives nothing more of it."""
        self.known_to_core = False
        self._closing = True
        self._drain()

    def abort(self) -> None:
        """Cuts the connection at once; `connection_lost` follows."""
        self._drop_unsent()
        if self._transport is not None:
            self._transport.abort()

    # Inside -----------------------------------------------------------------------------------

    def _drop_unsent(self) -> None:
        self._outbox.clear()
        self._unsent_bytes = 0

    def _update_reading(self, *, moved: bool = False) -> None:
        stalled = self._paused_writing or bool(self._outbox)
        if stalled or self._is_stalled:
            size = self._unsent_bytes + self._transport.get_write_buffer_size() if stalled else 0
            self._is_stalled = stalled
            self._owner.on_unsent(self, size, moved=moved)
        wanted = not (self._held_by_core or stalled or self._rests)
        if self._transport.is_closing() or wanted == self._transport.is_reading():
            return
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _drain(self, *, moved: bool = False) -> None:
        transport = self._transport
        outbox = self._outbox
        if transport.is_closing():
            # Lost already, and connection_lost is under way: nothing will be sent.
            self._drop_unsent()
            return
        while outbox and not self._paused_writing:
            if isinstance(outbox[0], FileSlice):
                self._send_slice(outbox[0])
            else:
                self._send_bytes()
        self._update_reading(moved=moved)
        if self._closing and not outbox:
            transport.close()

    def _send_bytes(self) -> None:
        """Hands buffers before the next file slice to the transport: as many as it takes at once.
        Under TLS, what it has is a copy."""
        outbox, run, size = self._outbox, [], 0
        while outbox and size < WRITE_HIGH_WATER_BYTES:
            chunk = outbox[0]
            if isinstance(chunk, FileSlice):
                break
            outbox.popleft()
            left = WRITE_HIGH_WATER_BYTES - size
            if len(chunk) > left:
                outbox.appendleft(memoryview(chunk)[left:])
                chunk = memoryview(chunk)[:left]
            run.append(chunk)
            size += len(chunk)
        self._unsent_bytes -= size
        self._transport.writelines(run)

    def _send_slice(self, chunk: FileSlice) -> None:
        """Sends the head of the outbox, or a part of it."""
        sent = self._sendfile(chunk) if self._sends_files else 0
        if sent == 0:
            piece = _read_piece(chunk)
            if not piece:
                # The frame cannot be finished.
                self.abort()
                return
            self._transport.write(piece)
            sent = len(piece)
        if self._outbox:
            rest = chunk.length - sent
            assert rest >= 0, f"sent {sent} of {chunk.length} bytes"
            if rest:
                self._outbox[0] = FileSlice(chunk.file, chunk.position + sent, rest)
            else:
                self._outbox.popleft()

    def _sendfile(self, chunk: FileSlice) -> int:
        """Bytes that the kernel took from the file; 0 when it would not."""
        fileno = getattr(chunk.file, "fileno", None)
        if fileno is None or chunk.file.closed or self._transport.get_write_buffer_size():
            return 0
        sock = self._transport.get_extra_info("socket")
        try:
            return os.sendfile(sock.fileno(), fileno(), chunk.position, chunk.length)
        except (OSError, StorageError):
            # Full, gone, or a file system without it: the transport finds out which.
            return 0


def _read_piece(chunk: FileSlice) -> bytes:
    """The next bytes of a slice; none when its file is unreadable, shorter than promised, or
    closed: its topic may have been deleted since the core answered."""
    if chunk.file.closed:
        return b""
    try:
        return chunk.file.read(chunk.position, min(chunk.length, _PIECE_BYTES))
    except StorageError:
        return b""

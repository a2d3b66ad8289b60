"""One side of one TLS connection between bytes and bytes: no socket, no loop.

What came from the peer goes in by `feed`; `handshake`, `read_into` and `seal` leave what is for the
peer to `take`. Python's `ssl` does the rest over two buffers in memory.

OpenSSL's buffer in memory grows by copying itself, is wiped each time, and never shrinks. So large
data is encrypted in pieces, each of which is taken before the next one: the first answer of 2 MiB
on a connection took six times as long as one that found its buffer grown, and left the connection
with as much memory.

Left out: waiting for the peer's answer to `shut_down`. Frames have lengths, so a connection that
was cut is noticed without it.
"""

import ssl
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from tidelog.env.disk import Buffer
from tidelog.limits import SEALED_BYTES


class TlsFilter:
    """See the module's docstring."""

    __slots__ = ("_incoming", "_object", "_outgoing", "has_ended", "take")

    def __init__(self, context: ssl.SSLContext, server_hostname: str | None = None) -> None:
        """`server_hostname` is the host that was dialled; without one this is the server."""
        # Bytes of the peer that are not decrypted yet, and ours that have not left.
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_hostname is None,
            server_hostname=server_hostname,
        )
        # Whether the peer has closed its side; what it sends after that is not read.
        self.has_ended = False
        # Takes the bytes for the peer.
        self.take = self._outgoing.read

    @property
    def has_outgoing(self) -> bool:
        """Whether bytes are left to `take`."""
        return self._outgoing.pending > 0

    def feed(self, data: Buffer) -> None:
        """Bytes of the peer, which are copied."""
        self._incoming.write(data)

    def handshake(self) -> bool:
        """Takes the handshake as far as the peer's bytes allow; true when it is done. Raises
        `ssl.SSLError`."""
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    @property
    def certificate(self) -> bytes | None:
        """The peer's certificate in DER, if it showed one that was accepted."""
        return self._object.getpeercert(binary_form=True)

    def read_into(self, buffer: memoryview) -> int:
        """Decrypts what was fed and returns how much there is now in the buffer. Raises
        `ssl.SSLError` for bytes that are none of TLS."""
        incoming = self._incoming
        # Any: with a buffer it returns a number, which the types of the library do not say.
        read: Any = self._object.read
        size = 0
        try:
            # The condition saves the error that would end most loops.
            while incoming.pending and size < len(buffer):
                count = read(len(buffer) - size, buffer[size:])
                if not count:
                    self.has_ended = True
                    break
                size += count
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.has_ended = True
        return size

    def seal(self, chunks: Sequence[Buffer]) -> list[bytes]:
        """The chunks encrypted, with all that was left to `take` before them; in pieces, of which
        none is much larger than `SEALED_BYTES`."""
        if len(chunks) == 1 and len(chunks[0]) <= SEALED_BYTES:
            return [self._seal_piece(chunks[0])]
        return [self._seal_piece(piece) for piece in pieces_of(chunks)]

    def _seal_piece(self, piece: Buffer) -> bytes:
        view = memoryview(piece)
        while view:
            view = view[self._object.write(view) :]
        return self.take()

    def shut_down(self) -> None:
        """Leaves to `take` TLS's word that nothing more comes."""
        with suppress(ssl.SSLError, ValueError):
            self._object.unwrap()


def pieces_of(chunks: Sequence[Buffer]) -> Iterator[Buffer]:
    """The bytes of the chunks in pieces of `SEALED_BYTES`; only the last one is smaller."""
    run: list[Buffer] = []
    size = 0
    for chunk in chunks:
        left = memoryview(chunk)
        while len(left) >= SEALED_BYTES - size:
            cut = SEALED_BYTES - size
            run.append(left[:cut])
            yield run[0] if len(run) == 1 else b"".join(run)
            left, run, size = left[cut:], [], 0
        if left:
            run.append(left)
            size += len(left)
    if run:
        yield run[0] if len(run) == 1 else b"".join(run)


def reason_of(error: ssl.SSLError) -> str:
    """Why a handshake failed, for a log line: OpenSSL's own words, nothing of the peer's."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the peer's certificate is not accepted: {error.verify_message}"
    if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return "the peer does not speak TLS"
    return (error.reason or "connection ended").replace("_", " ").lower()

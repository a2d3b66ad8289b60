"""A blocking client of one node: a request entity goes out, its response entity comes back."""

import itertools
import socket
from struct import Struct
from typing import Any, Final

from tidelog.errors import MalformedFrame
from tidelog.wire import codec
from tidelog.wire.api import ApiKey

_LENGTH: Final = Struct(">i")
_CLIENT_ID: Final = "tidelog-admin"
MAX_RESPONSE_BYTES: Final = 256 << 20


class Unreachable(Exception):
    """A node did not take the connection, broke it, or did not answer in time."""


class NodeConnection:
    """One connection to one node. Not for several threads."""

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        """Connects; raises `Unreachable`."""
        # Where it leads, for messages.
        self.address = f"{host}:{port}"
        self._correlation_ids = itertools.count(1)
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            raise Unreachable(f"`{self.address}` cannot be reached: {error}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, request: Any, timeout_s: float) -> Any:
        """Sends a request entity and returns the response entity; raises `Unreachable`."""
        key, version = ApiKey(request.__api_key__), int(request.__version__)
        correlation_id = next(self._correlation_ids)
        framed = codec.encode_request(request, correlation_id, _CLIENT_ID)
        frame = self.call_raw(framed, timeout_s)
        try:
            answered_id, response = codec.decode_response(key, version, frame)
        except MalformedFrame as error:
            raise Unreachable(f"`{self.address}` answered with a bad frame: {error}") from None
        self.check_id(correlation_id, answered_id)
        return response

    def call_raw(self, framed: bytes, timeout_s: float) -> bytes:
        """Sends a framed request and returns the answer without its length prefix."""
        try:
            self._socket.settimeout(max(timeout_s, 0.001))
            self._socket.sendall(framed)
            (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
            if not 0 < length <= MAX_RESPONSE_BYTES:
                raise Unreachable(f"`{self.address}` answered with a frame of {length} bytes")
            return self._read(length)
        except OSError as error:
            raise Unreachable(f"`{self.address}` did not answer: {error}") from None

    def next_correlation_id(self) -> int:
        """For requests that are packed by hand."""
        return next(self._correlation_ids)

    def close(self) -> None:
        """Ends the connection."""
        self._socket.close()

    def check_id(self, sent: int, answered: int) -> None:
        """Raises `Unreachable` for an answer to another request."""
        if sent != answered:
            raise Unreachable(f"`{self.address}` answered request {answered}, not {sent}")

    def _read(self, length: int) -> bytes:
        parts = bytearray()
        while len(parts) < length:
            part = self._socket.recv(length - len(parts))
            if not part:
                raise Unreachable(f"`{self.address}` closed the connection")
            parts += part
        return bytes(parts)

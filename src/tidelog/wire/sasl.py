"""SaslHandshake (API 17) and SaslAuthenticate (API 36), read and packed by hand.

Three of them make a login, and a node has hundreds of clients that log in at once when they come
back after a failover. With the schema codec they took a node a seventh of the time of a login.
"""

from struct import Struct
from typing import Final

from tidelog.env.disk import Buffer
from tidelog.errors import ErrorCode, MalformedFrame
from tidelog.wire.api import length_and_response_header, with_length
from tidelog.wire.notation import CLASSIC, FLEXIBLE, INT16, Notation, read_body

_SESSION: Final = Struct(">q")
_SESSION_FROM: Final = 1
_FLEXIBLE_FROM: Final = 2


def _notation(version: int) -> Notation:
    return FLEXIBLE if version >= _FLEXIBLE_FROM else CLASSIC


def parse_handshake(frame: Buffer, offset: int) -> str:
    """The mechanism of a SaslHandshake request of version 0 or 1, whose body begins at `offset`.
    Raises `MalformedFrame`."""
    return read_body("SaslHandshake request", _read_handshake, 0, CLASSIC, frame, offset)


def _read_handshake(
    _version: int, notation: Notation, view: memoryview, position: int
) -> tuple[str, int]:
    return notation.read_text(view, position)


def parse_authenticate(version: int, frame: Buffer, offset: int) -> bytes:
    """The mechanism's message in a SaslAuthenticate request of version 0 to 2. Raises
    `MalformedFrame`."""
    what, notation = "SaslAuthenticate request", _notation(version)
    return read_body(what, _read_authenticate, version, notation, frame, offset)


def _read_authenticate(
    _version: int, notation: Notation, view: memoryview, position: int
) -> tuple[bytes, int]:
    token, position = notation.read_blob(view, position)
    if token is None:
        raise MalformedFrame("a login without a message")
    return bytes(token), notation.skip_tags(view, position)


def pack_handshake_response(
    correlation_id: int, code: ErrorCode, mechanisms: tuple[str, ...]
) -> bytes:
    """A whole SaslHandshake response of version 0 or 1, with header and length prefix."""
    out = bytearray(length_and_response_header(False, correlation_id))
    out += INT16.pack(code)
    CLASSIC.write_length(out, len(mechanisms))
    for mechanism in mechanisms:
        CLASSIC.write_text(out, mechanism)
    return with_length(out)


def pack_authenticate_response(
    version: int, correlation_id: int, code: ErrorCode, message: str, token: bytes, session_ms: int
) -> bytes:
    """A whole SaslAuthenticate response of version 0 to 2, with header and length prefix. The token
    is the mechanism's message; the session lasts for so many ms, or for ever (0)."""
    notation = _notation(version)
    out = bytearray(length_and_response_header(notation.flexible, correlation_id))
    out += INT16.pack(code)
    notation.write_text(out, message)
    notation.write_length(out, len(token))
    out += token
    if version >= _SESSION_FROM:
        out += _SESSION.pack(session_ms)
    notation.write_no_tags(out)
    return with_length(out)

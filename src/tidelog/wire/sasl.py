"""Answers to SaslHandshake (API 17) and SaslAuthenticate (API 36), packed by hand.

Three answers make a login, and a node has hundreds of clients that log in at once when they come
back after a failover. The requests take less, and are read by the schema.
"""

from struct import Struct
from typing import Final

from tidelog.errors import ErrorCode
from tidelog.wire.api import length_and_response_header
from tidelog.wire.notation import CLASSIC, FLEXIBLE, INT16, INT32

_SESSION: Final = Struct(">q")
_SESSION_FROM: Final = 1
_FLEXIBLE_FROM: Final = 2


def pack_handshake_response(
    correlation_id: int, code: ErrorCode, mechanisms: tuple[str, ...]
) -> bytes:
    """A whole SaslHandshake response of version 0 or 1, with header and length prefix."""
    out = bytearray(length_and_response_header(False, correlation_id))
    out += INT16.pack(code)
    CLASSIC.write_length(out, len(mechanisms))
    for mechanism in mechanisms:
        CLASSIC.write_text(out, mechanism)
    INT32.pack_into(out, 0, len(out) - INT32.size)
    return bytes(out)


def pack_authenticate_response(
    version: int, correlation_id: int, code: ErrorCode, message: str, token: bytes, session_ms: int
) -> bytes:
    """A whole SaslAuthenticate response of version 0 to 2, with header and length prefix. The token
    is the mechanism's message; the session lasts for so many ms, or for ever (0)."""
    notation = FLEXIBLE if version >= _FLEXIBLE_FROM else CLASSIC
    out = bytearray(length_and_response_header(notation.flexible, correlation_id))
    out += INT16.pack(code)
    notation.write_text(out, message)
    notation.write_length(out, len(token))
    out += token
    if version >= _SESSION_FROM:
        out += _SESSION.pack(session_ms)
    notation.write_no_tags(out)
    INT32.pack_into(out, 0, len(out) - INT32.size)
    return bytes(out)

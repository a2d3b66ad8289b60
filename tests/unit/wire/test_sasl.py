"""Requests and answers of logins agree with the schema codec."""

import pytest

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode, MalformedFrame
from tidelog.wire.api import ApiKey, RequestHeader, parse_header
from tidelog.wire.codec import encode_request, encode_response, request_class, response_class
from tidelog.wire.entities import make
from tidelog.wire.sasl import (
    pack_authenticate_response,
    pack_handshake_response,
    parse_authenticate,
    parse_handshake,
)
from tidelog.wire.values import millis

CODES = (ErrorCode.NONE, ErrorCode.ILLEGAL_SASL_STATE, ErrorCode.SASL_AUTHENTICATION_FAILED)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("mechanisms", [(), ("PLAIN",), ("PLAIN", "SCRAM-SHA-256")])
def test_answers_to_handshakes(version: int, mechanisms: tuple[str, ...]) -> None:
    header = RequestHeader(ApiKey.SASL_HANDSHAKE, version, 77, "client")
    for code in CODES:
        entity_type = response_class(header.api_key, version)
        entity = make(entity_type, error_code=code, mechanisms=mechanisms)
        assert pack_handshake_response(77, code, mechanisms) == encode_response(header, entity)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_answers_to_messages(version: int) -> None:
    header, prng = RequestHeader(ApiKey.SASL_AUTHENTICATE, version, 77, "client"), Prng(version)
    entity_type = response_class(header.api_key, version)
    for size in (0, 1, 100, 126, 127, 128, 20_000):
        code = CODES[size % len(CODES)]
        message, token = "é" * (size // 2), bytes(size)
        session_ms = prng.between(0, 1 << 40)
        entity = make(
            entity_type,
            error_code=code,
            error_message=message,
            auth_bytes=token,
            session_lifetime=millis(session_ms),
        )
        packed = pack_authenticate_response(version, 77, code, message, token, session_ms)
        assert packed == encode_response(header, entity)


def body_of(frame: bytes) -> tuple[bytes, int]:
    """A request without its length, and where its body begins."""
    _, offset = parse_header(frame[4:])
    return frame[4:], offset


@pytest.mark.parametrize("version", [0, 1])
def test_requests_of_handshakes(version: int) -> None:
    for mechanism in ("", "PLAIN", "é" * 1000):
        entity = make(request_class(ApiKey.SASL_HANDSHAKE, version), mechanism=mechanism)
        frame, offset = body_of(encode_request(entity, 77, "client"))
        assert parse_handshake(frame, offset) == mechanism
        with pytest.raises(MalformedFrame):
            parse_handshake(frame + b"\0", offset)
        with pytest.raises(MalformedFrame):
            parse_handshake(frame[:-1], offset)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_requests_with_messages(version: int) -> None:
    for size in (0, 1, 126, 127, 128, 20_000):
        entity = make(request_class(ApiKey.SASL_AUTHENTICATE, version), auth_bytes=bytes(size))
        frame, offset = body_of(encode_request(entity, 77, "client"))
        assert parse_authenticate(version, frame, offset) == bytes(size)
        with pytest.raises(MalformedFrame):
            parse_authenticate(version, frame[:-1], offset)
        with pytest.raises(MalformedFrame):
            parse_authenticate(version, frame + b"\0", offset)


@pytest.mark.parametrize(("version", "null"), [(0, b"\xff" * 4), (2, b"\0\0")])
def test_a_login_without_a_message_is_malformed(version: int, null: bytes) -> None:
    with pytest.raises(MalformedFrame):
        parse_authenticate(version, null, 0)

"""Answers of logins agree with the schema codec."""

import pytest

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey, RequestHeader
from tidelog.wire.codec import encode_response, response_class
from tidelog.wire.entities import make
from tidelog.wire.sasl import pack_authenticate_response, pack_handshake_response
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

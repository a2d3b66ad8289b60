"""Recorded exchanges are read and written back byte for byte; whatever else is refused."""

import pytest

from tests.wire_corpus import Exchange, wire_corpus
from tidelog.errors import ErrorCode, MalformedFrame, ProtocolError
from tidelog.wire.api import ApiKey, RequestHeader, parse_header
from tidelog.wire.codec import (
    TRAILING_BYTES_ALLOWED,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    request_class,
    response_class,
)
from tidelog.wire.values import error, millis


def has_trailing_bytes(exchange: Exchange) -> bool:
    """librdkafka's request for all topics, see `TRAILING_BYTES_ALLOWED`."""
    return exchange.peer == "confluent-kafka admin" and exchange.request.endswith(
        b"rdkafka\x00\x00\x00\x00\x00\x01\x00\x00"
    )


def test_recorded_requests_come_back_byte_for_byte() -> None:
    odd = []
    for exchange in wire_corpus():
        header, body = parse_header(exchange.request)
        entity = decode_request(header, memoryview(exchange.request), body)
        encoded = encode_request(entity, header.correlation_id, header.client_id)
        assert len(encoded) == 4 + int.from_bytes(encoded[:4], "big")
        if has_trailing_bytes(exchange):
            odd.append(exchange)
            assert exchange.request == encoded[4:] + b"\x01\x00\x00"
        else:
            assert encoded[4:] == exchange.request, str(exchange)
    assert len(odd) == 1


def test_recorded_responses_come_back_byte_for_byte() -> None:
    for exchange in wire_corpus():
        header, _ = parse_header(exchange.request)
        correlation_id, entity = decode_response(
            header.api_key, header.api_version, memoryview(exchange.response)
        )
        assert correlation_id == header.correlation_id
        encoded = encode_response(header, entity)
        assert encoded == len(exchange.response).to_bytes(4, "big") + exchange.response


def test_the_corpus_covers_what_matters() -> None:
    assert len(wire_corpus()) == 510
    assert {exchange.api_key for exchange in wire_corpus()} >= {0, 1, 2, 3, 18, 52, 56, 62}


def test_trailing_bytes_are_malformed_but_for_metadata() -> None:
    for api_key, version in ((ApiKey.INIT_PRODUCER_ID, 4), (ApiKey.METADATA, 13)):
        exchange = next(e for e in wire_corpus() if (e.api_key, e.version) == (api_key, version))
        header, body = parse_header(exchange.request)
        frame = exchange.request + b"\x00"
        if api_key in TRAILING_BYTES_ALLOWED:
            assert decode_request(header, frame, body) == decode_request(
                header, exchange.request, body
            )
        else:
            with pytest.raises(MalformedFrame, match="`1` bytes behind"):
                decode_request(header, frame, body)
        with pytest.raises(MalformedFrame, match="`1` bytes behind"):
            decode_response(header.api_key, header.api_version, exchange.response + b"\x00")


def test_a_version_without_schema_is_unsupported() -> None:
    for lookup in (request_class, response_class):
        for api_key, version in ((ApiKey.METADATA, 14), (ApiKey.PRODUCE, 2), (4, 0)):
            with pytest.raises(ProtocolError) as caught:
                lookup(api_key, version)
            assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(ProtocolError):
        decode_request(RequestHeader(ApiKey.METADATA, 99, 1, None), b"", 0)


def test_classes_are_resolved_once() -> None:
    assert request_class(ApiKey.METADATA, 1) is request_class(3, 1)


def test_an_unsupported_api_versions_request_is_answered_in_version_0() -> None:
    header = RequestHeader(ApiKey.API_VERSIONS, 99, 6, "new")
    response = response_class(ApiKey.API_VERSIONS, 0)(
        error_code=error(ErrorCode.UNSUPPORTED_VERSION), api_keys=()
    )
    assert encode_response(header, response).hex(" ") == (
        "00 00 00 0a 00 00 00 06 00 23 00 00 00 00"
    )


def test_an_error_number_from_the_future_is_an_unknown_server_error() -> None:
    response = response_class(ApiKey.INIT_PRODUCER_ID, 0)(
        throttle_time=millis(0), error_code=error(0), producer_id=1, producer_epoch=0
    )
    header = RequestHeader(ApiKey.INIT_PRODUCER_ID, 0, 1, None)
    frame = bytearray(encode_response(header, response)[4:])
    frame[8:10] = b"\x7f\xff"
    _, entity = decode_response(ApiKey.INIT_PRODUCER_ID, 0, frame)
    assert entity.error_code is error(ErrorCode.UNKNOWN_SERVER_ERROR)


def test_a_response_that_ends_in_its_header_is_malformed() -> None:
    with pytest.raises(MalformedFrame):
        decode_response(ApiKey.METADATA, 9, b"\x00\x00")

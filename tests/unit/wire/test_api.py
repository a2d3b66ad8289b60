"""The API table agrees with the schemas, and headers survive a round trip."""

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map

from tests.served import BROKER_APIS, CONTROLLER_APIS
from tests.wire_corpus import wire_corpus
from tidelog.errors import MalformedFrame
from tidelog.wire.api import (
    ApiKey,
    has_flexible_response_header,
    is_flexible,
    length_and_response_header,
    pack_header,
    parse_header,
    parse_response_header,
)

SERVED = sorted({**CONTROLLER_APIS, **BROKER_APIS}.items())


@pytest.mark.parametrize(("api_key", "versions"), SERVED)
def test_every_served_version_has_a_schema_and_the_header_the_table_says(api_key, versions) -> None:
    for version in range(versions.min_version, versions.max_version + 1):
        request = load_request_schema(api_key, version)
        response = load_response_schema(api_key, version)
        assert request.__flexible__ == is_flexible(api_key, version)
        assert request.__header_schema__.__version__ == (2 if request.__flexible__ else 1)
        expected = has_flexible_response_header(api_key, version)
        assert response.__header_schema__.__version__ == int(expected)


def test_the_keys_are_those_of_the_schemas() -> None:
    assert {int(key): key.name.lower() for key in ApiKey} == dict(api_key_map)


def test_the_first_flexible_version_of_every_api() -> None:
    for api_key in ApiKey:
        versions = sorted(schema_name_map[api_key_map[api_key]])
        for version in (versions[0], versions[-1]):
            assert load_request_schema(api_key, version).__flexible__ == is_flexible(
                api_key, version
            ), (api_key, version)


def test_recorded_headers_come_back_byte_for_byte() -> None:
    for exchange in wire_corpus():
        header, body = parse_header(exchange.request)
        assert (header.api_key, header.api_version) == (exchange.api_key, exchange.version)
        assert pack_header(*header) == exchange.request[:body], str(exchange)


@pytest.mark.parametrize("client_id", [None, "", "näme"])
@pytest.mark.parametrize("version", [8, 9])
def test_headers_of_both_notations(client_id: str | None, version: int) -> None:
    packed = pack_header(ApiKey.METADATA, version, -7, client_id)
    header, body = parse_header(memoryview(packed + b"body"))
    assert header == (ApiKey.METADATA, version, -7, client_id)
    assert body == len(packed)


def test_tags_in_a_request_header_are_skipped() -> None:
    packed = pack_header(ApiKey.METADATA, 12, 1, "c")[:-1] + b"\x02\x00\x01a\x07\x02bc"
    assert parse_header(packed)[1] == len(packed)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00\x03\x00\x01\x00\x00",
        b"\x03\xe7\x00\x01\x00\x00\x00\x01\xff\xff",
        b"\x00\x04\x00\x01\x00\x00\x00\x01\xff\xff",
        b"\x00\x03\xff\xff\x00\x00\x00\x01\xff\xff",
        b"\x00\x03\x00\x01\x00\x00\x00\x01\x00\x05abcd",
        b"\x00\x03\x00\x01\x00\x00\x00\x01\x00\x01\xff",
        b"\x00\x03\x00\x0c\x00\x00\x00\x01\xff\xff",
        b"\x00\x03\x00\x0c\x00\x00\x00\x01\xff\xff\x01\x00\x09x",
        b"\x00\x03\x00\x0c\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff",
    ],
    ids=[
        "empty",
        "short",
        "no such key",
        "a key of old",
        "negative version",
        "client id too long",
        "client id no text",
        "no tags",
        "tag too long",
        "varint too long",
    ],
)
def test_what_is_not_a_header_is_malformed(frame: bytes) -> None:
    with pytest.raises(MalformedFrame):
        parse_header(frame)


def test_response_headers() -> None:
    flexible = length_and_response_header(True, 5)
    assert flexible == b"\x00\x00\x00\x00\x00\x00\x00\x05\x00"
    assert parse_response_header(ApiKey.METADATA, 9, flexible[4:]) == (5, 5)
    classic = length_and_response_header(False, 5)
    assert parse_response_header(ApiKey.METADATA, 8, classic[4:]) == (5, 4)
    assert parse_response_header(ApiKey.API_VERSIONS, 4, classic[4:]) == (5, 4)
    with pytest.raises(MalformedFrame):
        parse_response_header(ApiKey.METADATA, 9, classic[4:])

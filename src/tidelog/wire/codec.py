"""Whole requests and responses as `kio` entities: every API except the hot Produce and Fetch.

Schemas are imported when an API and version is first met, because each import costs 4 to 15 ms
and a node meets few of the thousand there are.

Trailing bytes behind a body are malformed, except in two requests of librdkafka
(`TRAILING_BYTES_ALLOWED`).

The functions return `Any`: which class an entity has depends on the API and version. A handler
knows both and annotates what it gets.
"""

from functools import cache
from typing import Any, Final

from kio.index import KioIndexError, load_request_schema, load_response_schema

from tidelog.env.disk import Buffer
from tidelog.errors import ErrorCode, MalformedFrame, ProtocolError
from tidelog.wire import api
from tidelog.wire.schema import read_entity, write_entity

TRAILING_BYTES_ALLOWED: Final = frozenset(
    (api.ApiKey.METADATA, api.ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
)
"""APIs whose request may be followed by bytes that mean nothing. librdkafka writes a zero too many
behind AlterUserScramCredentials. Asking for all topics, it reserves four bytes for the length of
the topic list, writes a null list of one byte into them and sends the other three as well; Kafka
never looks behind a body."""


@cache
def request_class(api_key: int, api_version: int) -> Any:
    """The entity class of a request. Raises `ProtocolError(UNSUPPORTED_VERSION)`."""
    try:
        return load_request_schema(int(api_key), api_version)
    except KioIndexError as cause:
        raise _unsupported(api_key, api_version) from cause


@cache
def response_class(api_key: int, api_version: int) -> Any:
    """The entity class of a response. Raises `ProtocolError(UNSUPPORTED_VERSION)`."""
    try:
        return load_response_schema(int(api_key), api_version)
    except KioIndexError as cause:
        raise _unsupported(api_key, api_version) from cause


def _unsupported(api_key: int, api_version: int) -> ProtocolError:
    return ProtocolError(
        ErrorCode.UNSUPPORTED_VERSION, f"API `{api_key}` has no version `{api_version}`"
    )


def decode_request(header: api.RequestHeader, frame: Buffer, body_offset: int) -> Any:
    """The entity of a request whose header was parsed.

    Raises `MalformedFrame`, or `ProtocolError(UNSUPPORTED_VERSION)` for a version without schema.
    """
    entity_type = request_class(header.api_key, header.api_version)
    entity, end = read_entity(entity_type, frame, body_offset)
    if end != len(frame) and header.api_key not in TRAILING_BYTES_ALLOWED:
        raise MalformedFrame(f"`{len(frame) - end}` bytes behind a {entity_type.__name__}")
    return entity


def encode_request(entity: Any, correlation_id: int, client_id: str | None) -> bytes:
    """A request of ours, with header and length prefix."""
    out = bytearray(4)
    out += api.pack_header(
        api.ApiKey(entity.__api_key__), entity.__version__, correlation_id, client_id
    )
    write_entity(out, entity)
    return api.with_length(out)


def encode_response(header: api.RequestHeader, entity: Any) -> bytes:
    """The answer to the request with this header, with header and length prefix.

    The entity may have another version than the request only for ApiVersions, whose unsupported
    versions are answered in version 0.
    """
    flexible = api.has_flexible_response_header(header.api_key, header.api_version)
    out = bytearray(api.length_and_response_header(flexible, header.correlation_id))
    write_entity(out, entity)
    return api.with_length(out)


def decode_response(api_key: api.ApiKey, api_version: int, frame: Buffer) -> tuple[int, Any]:
    """The correlation id and entity of a response to a request of ours.

    Raises `MalformedFrame`, or `ProtocolError(UNSUPPORTED_VERSION)` for a version without schema.
    """
    entity_type = response_class(api_key, api_version)
    correlation_id, position = api.parse_response_header(api_key, api_version, frame)
    entity, end = read_entity(entity_type, frame, position)
    if end != len(frame):
        raise MalformedFrame(f"`{len(frame) - end}` bytes behind a {entity_type.__name__}")
    return correlation_id, entity

"""Requests between replicas of the metadata log that are kio entities: Vote and its kind."""

from typing import Any

from tidelog.env.effects import Chunk
from tidelog.kraft import codec as quorum_codec
from tidelog.kraft.messages import QuorumResponse
from tidelog.wire import codec
from tidelog.wire.api import RequestHeader


def request_of(header: RequestHeader, frame: memoryview, offset: int) -> Any:
    """The quorum's value of a request. Raises `MalformedFrame`."""
    return quorum_codec.request_of(codec.decode_request(header, frame, offset))


def reply_of(header: RequestHeader, response: QuorumResponse) -> list[Chunk]:
    """The framed reply."""
    entity = quorum_codec.response_to_entity(header.api_key, response, header.api_version)
    return [codec.encode_response(header, entity)]

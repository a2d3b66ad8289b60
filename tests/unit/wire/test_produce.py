"""Produce of all versions agrees with the schema codec and with every recorded exchange."""

import pytest

from tests.unit.wire.hot_messages import (
    produce_request_at,
    produce_request_entity,
    produce_response_at,
    produce_response_entity,
    random_produce_request,
    random_produce_response,
)
from tests.wire_corpus import Exchange, wire_corpus
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode, MalformedFrame, ProtocolError
from tidelog.model import ZERO_TOPIC_ID, TopicId
from tidelog.wire.api import ApiKey, RequestHeader, parse_header
from tidelog.wire.codec import encode_request, encode_response
from tidelog.wire.produce import (
    LeaderHint,
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    RecordError,
    pack_request,
    pack_response,
    parse_request,
    parse_response,
)

VERSIONS = pytest.mark.parametrize("version", range(3, 14))

REQUEST = ProduceRequest(
    "txn", -1, 30_000, [ProducePartition("orders", TopicId(b"T" * 16), 3, memoryview(b"batch"))]
)
RESPONSE = ProduceResponse(
    [
        ProducedPartition(
            "orders",
            TopicId(b"T" * 16),
            3,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            -1,
            -1,
            -1,
            (RecordError(0, "bad"),),
            "worse",
            LeaderHint(2, 5),
        )
    ]
)


def recorded() -> list[Exchange]:
    return [each for each in wire_corpus() if each.api_key == ApiKey.PRODUCE]


def test_recorded_requests_come_back_byte_for_byte() -> None:
    for exchange in recorded():
        header, body = parse_header(exchange.request)
        request = parse_request(exchange.version, exchange.request, body)
        packed = pack_request(exchange.version, header.correlation_id, header.client_id, request)
        assert packed == len(exchange.request).to_bytes(4, "big") + exchange.request


def test_recorded_responses_come_back_byte_for_byte() -> None:
    for exchange in recorded():
        correlation_id, response = parse_response(exchange.version, exchange.response)
        packed = pack_response(exchange.version, correlation_id, response)
        assert packed == len(exchange.response).to_bytes(4, "big") + exchange.response
    assert {each.version for each in recorded()} == {7, 9, 10, 13}


@VERSIONS
def test_requests_agree_with_the_schema(version: int) -> None:
    prng = Prng(version)
    for _ in range(40):
        request = random_produce_request(prng)
        encoded = encode_request(produce_request_entity(version, request), 77, "client")
        assert pack_request(version, 77, "client", request) == encoded
        _, body = parse_header(encoded[4:])
        for frame in (encoded[4:], memoryview(bytearray(encoded[4:]))):
            assert parse_request(version, frame, body) == produce_request_at(version, request)


@VERSIONS
def test_responses_agree_with_the_schema(version: int) -> None:
    prng = Prng(version)
    for _ in range(40):
        response = random_produce_response(prng)
        header = RequestHeader(ApiKey.PRODUCE, version, 77, None)
        encoded = encode_response(header, produce_response_entity(version, response))
        assert pack_response(version, 77, response) == encoded
        assert parse_response(version, encoded[4:]) == (77, produce_response_at(version, response))


@VERSIONS
def test_every_truncation_and_a_byte_too_many_are_malformed(version: int) -> None:
    frame = pack_request(version, 1, None, REQUEST)[4:]
    _, body = parse_header(frame)
    parse_request(version, frame, body)
    for length in range(body, len(frame)):
        with pytest.raises(MalformedFrame):
            parse_request(version, frame[:length], body)
    with pytest.raises(MalformedFrame, match="`1` bytes behind"):
        parse_request(version, frame + b"\x00", body)
    frame = pack_response(version, 1, RESPONSE)[4:]
    parse_response(version, frame)
    for length in range(len(frame)):
        with pytest.raises(MalformedFrame):
            parse_response(version, frame[:length])
    with pytest.raises(MalformedFrame, match="`1` bytes behind"):
        parse_response(version, frame + b"\x00")


@pytest.mark.parametrize("version", [0, 1, 2, 14])
def test_versions_that_are_not_served(version: int) -> None:
    for call in (
        lambda: parse_request(version, b"", 0),
        lambda: pack_request(version, 1, None, REQUEST),
        lambda: parse_response(version, b""),
        lambda: pack_response(version, 1, RESPONSE),
    ):
        with pytest.raises(ProtocolError) as caught:
            call()
        assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION


def test_records_are_views_of_the_frame() -> None:
    frame = bytearray(pack_request(9, 1, None, REQUEST)[4:])
    _, body = parse_header(frame)
    request = parse_request(9, memoryview(frame), body)
    frame[frame.index(b"batch")] = ord("B")
    assert request.partitions[0].records == b"Batch"


def test_partitions_of_one_topic_are_answered_together() -> None:
    answer = RESPONSE.partitions[0]
    answers = [
        answer._replace(topic=topic, topic_id=ZERO_TOPIC_ID, partition=partition)
        for topic, partition in (("a", 0), ("b", 0), ("a", 1))
    ]
    _, response = parse_response(10, pack_response(10, 1, ProduceResponse(answers))[4:])
    assert [(each.topic, each.partition) for each in response.partitions] == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
    ]


@pytest.mark.parametrize("claim", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00"])
def test_list_lengths_are_not_believed(claim: bytes) -> None:
    frame = pack_request(8, 1, None, REQUEST)[4:]
    _, body = parse_header(frame)
    topics = body + 2 + 3 + 6
    assert frame[topics : topics + 4] == b"\x00\x00\x00\x01"
    with pytest.raises(MalformedFrame, match="a list of"):
        parse_request(8, frame[:topics] + claim + frame[topics + 4 :], body)


def test_a_small_request_in_bytes() -> None:
    frame = pack_request(9, 1, None, REQUEST)[4:]
    _, body = parse_header(frame)
    assert frame[body:].hex(" ") == (
        "04 74 78 6e ff ff 00 00 75 30"  # "txn", acks -1, 30 s
        " 02 07 6f 72 64 65 72 73"  # one topic, "orders"
        " 02 00 00 00 03 06 62 61 74 63 68 00"  # one partition, 3, five bytes of records
        " 00 00"
    )

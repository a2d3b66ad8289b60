"""Fetch responses of all versions agree with the schema codec; records are never copied."""

import pytest

from tests.unit.wire.hot_messages import (
    fetch_response_at,
    fetch_response_entity,
    random_fetch_response,
)
from tidelog.env.disk import FileSlice
from tidelog.env.memory_disk import MemoryDisk
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode, MalformedFrame
from tidelog.model import EpochEndOffset, TopicId
from tidelog.wire.api import ApiKey, RequestHeader
from tidelog.wire.codec import encode_response
from tidelog.wire.fetch import (
    AbortedTransaction,
    FetchedPartition,
    FetchResponse,
    LeaderHint,
    pack_response,
    parse_response,
)

VERSIONS = pytest.mark.parametrize("version", range(4, 19))

ANSWER = FetchedPartition(
    "orders", TopicId(b"T" * 16), 3, ErrorCode.NONE, 10, 9, 0, [b"records"], 7, aborted=[]
)


def response_of(*answers: FetchedPartition) -> FetchResponse:
    return FetchResponse(0, ErrorCode.NONE, 0, list(answers))


@VERSIONS
def test_packing_and_parsing_agree_with_the_schema(version: int) -> None:
    prng = Prng(version)
    for _ in range(40):
        response = random_fetch_response(prng)
        header = RequestHeader(ApiKey.FETCH, version, 77, None)
        encoded = encode_response(header, fetch_response_entity(version, response))
        chunks = pack_response(version, 77, response)
        assert b"".join(chunks) == encoded
        assert all(chunks), "no empty chunk is sent"
        for frame in (encoded[4:], memoryview(bytearray(encoded[4:]))):
            assert parse_response(version, frame) == (77, fetch_response_at(version, response))


@VERSIONS
def test_every_truncation_and_a_byte_too_many_are_malformed(version: int) -> None:
    answer = ANSWER._replace(
        diverging_epoch=EpochEndOffset(1, 2),
        current_leader=LeaderHint(3, 4),
        snapshot_id=EpochEndOffset(5, 6),
        aborted=[AbortedTransaction(7, 8)],
    )
    frame = b"".join(pack_response(version, 1, response_of(answer)))[4:]
    parse_response(version, frame)
    for length in range(len(frame)):
        with pytest.raises(MalformedFrame):
            parse_response(version, frame[:length])
    with pytest.raises(MalformedFrame, match="`1` bytes behind"):
        parse_response(version, frame + b"\x00")


@pytest.mark.parametrize("version", [4, 11, 18])
def test_records_are_sent_by_reference(version: int) -> None:
    tail, view = b"tail batch", memoryview(bytearray(b"more of it"))
    file = MemoryDisk("/d").open("segment", create=True)
    piece = FileSlice(file, 100, 5000)
    chunks = pack_response(
        version,
        1,
        response_of(
            ANSWER._replace(records=[tail, view], records_bytes=20),
            ANSWER._replace(partition=4, records=[], records_bytes=0),
            ANSWER._replace(partition=5, records=[piece], records_bytes=5000),
        ),
    )
    assert chunks[1] is tail
    assert chunks[2] is view
    assert chunks[4] is piece
    others = [len(chunk) for chunk in chunks if not isinstance(chunk, FileSlice)]
    assert int.from_bytes(chunks[0][:4], "big") == sum(others) + 5000 - 4


def test_parsed_records_are_views_of_the_frame() -> None:
    frame = bytearray(b"".join(pack_response(18, 1, response_of(ANSWER)))[4:])
    _, response = parse_response(18, frame)
    frame[frame.index(b"records")] = ord("R")
    assert bytes(response.partitions[0].records[0]) == b"Records"


def test_a_size_that_is_not_that_of_the_chunks_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="not 8"):
        pack_response(18, 1, response_of(ANSWER._replace(records_bytes=8)))


def test_the_order_of_partitions_is_kept_even_when_a_topic_comes_back() -> None:
    answers = [
        ANSWER._replace(topic=topic, partition=partition)
        for topic, partition in (("a", 0), ("b", 0), ("a", 1))
    ]
    frame = b"".join(pack_response(11, 1, response_of(*answers)))[4:]
    parsed = parse_response(11, frame)[1].partitions
    assert [(each.topic, each.partition) for each in parsed] == [("a", 0), ("b", 0), ("a", 1)]


@pytest.mark.parametrize("size", [12, 14])
def test_a_diverging_epoch_of_the_wrong_size_is_malformed(size: int) -> None:
    answer = ANSWER._replace(diverging_epoch=EpochEndOffset(1, 2))
    frame = b"".join(pack_response(12, 1, response_of(answer)))[4:]
    field = b"\x00\x0d\x00\x00\x00\x01"
    assert frame.count(field) == 1
    with pytest.raises(MalformedFrame):
        parse_response(12, frame.replace(field, bytes([0, size]) + field[2:]))


def test_error_numbers_of_the_future_are_unknown_server_errors() -> None:
    frame = b"".join(pack_response(18, 1, response_of()))[4:]
    assert frame[9:11] == b"\x00\x00"
    _, response = parse_response(18, frame[:9] + b"\x7f\x00" + frame[11:])
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR

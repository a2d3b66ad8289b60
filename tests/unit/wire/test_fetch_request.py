"""Fetch requests of all versions agree with the schema codec in both directions."""

import pytest

from tests.unit.wire.hot_messages import (
    fetch_request_at,
    fetch_request_entity,
    random_fetch_request,
)
from tidelog.env.prng import Prng
from tidelog.errors import MalformedFrame
from tidelog.wire.api import parse_header
from tidelog.wire.codec import encode_request
from tidelog.wire.fetch import FetchPartition, FetchRequest, pack_request, parse_request

VERSIONS = pytest.mark.parametrize("version", range(4, 19))

QUORUM_FETCH = FetchRequest(
    replica_id=3,
    replica_epoch=-1,
    max_wait_ms=500,
    min_bytes=0,
    max_bytes=8192,
    isolation_level=0,
    session_id=0,
    session_epoch=-1,
    partitions=[FetchPartition("t", bytes(15) + b"\x01", 0, 7, 100, 6, 0, 0, 98)],
    forgotten=[],
    cluster_id="c",
    replica_directory_id=b"D" * 16,
)


@VERSIONS
def test_packing_and_parsing_agree_with_the_schema(version: int) -> None:
    prng = Prng(version)
    for _ in range(40):
        request = random_fetch_request(prng)
        entity = fetch_request_entity(version, request)
        encoded = encode_request(entity, 77, "client")
        assert pack_request(version, 77, "client", request) == encoded
        _, body = parse_header(encoded[4:])
        for frame in (encoded[4:], memoryview(bytearray(encoded[4:]))):
            assert parse_request(version, frame, body) == fetch_request_at(version, request)


@VERSIONS
def test_every_truncation_and_a_byte_too_many_are_malformed(version: int) -> None:
    frame = pack_request(version, 1, None, QUORUM_FETCH)[4:]
    _, body = parse_header(frame)
    parse_request(version, frame, body)
    for length in range(body, len(frame)):
        with pytest.raises(MalformedFrame):
            parse_request(version, frame[:length], body)
    with pytest.raises(MalformedFrame, match="`1` bytes behind"):
        parse_request(version, frame + b"\x00", body)


def test_a_quorum_fetch_in_bytes() -> None:
    """Version 18: everything a follower of the quorum adds is in tagged fields."""
    frame = pack_request(18, 1, None, QUORUM_FETCH)[4:]
    _, body = parse_header(frame)
    assert frame[body:].hex(" ") == (
        "00 00 01 f4 00 00 00 00 00 00 20 00 00"  # waits, bytes, isolation
        " 00 00 00 00 ff ff ff ff"  # no session
        " 02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01"  # one topic, its id
        " 02 00 00 00 00 00 00 00 07"  # one partition, epoch 7
        " 00 00 00 00 00 00 00 64 00 00 00 06"  # from 100, whose predecessor is of epoch 6
        " 00 00 00 00 00 00 00 00 00 00 00 00"  # log start, max bytes
        " 02 00 10 44 44 44 44 44 44 44 44 44 44 44 44 44 44 44 44"  # tag 0: directory
        " 01 08 00 00 00 00 00 00 00 62"  # tag 1: high watermark 98
        " 00 01 01"  # end of topic, nothing forgotten, no rack
        " 02 00 02 02 63"  # tag 0: cluster id
        " 01 0d 00 00 00 03 ff ff ff ff ff ff ff ff 00"  # tag 1: replica 3, no epoch
    )


def test_tags_of_the_future_are_skipped() -> None:
    frame = pack_request(16, 1, None, QUORUM_FETCH._replace(cluster_id=None, replica_id=-1))[4:]
    _, body = parse_header(frame)
    assert frame.endswith(b"\x00\x00\x01\x01\x00")
    with_tag = frame[:-1] + b"\x01\x09\x02hi"
    assert parse_request(16, with_tag, body) == parse_request(16, frame, body)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\x01\x08" + bytes(7) + b"\x62", b"\x01\x07" + bytes(6) + b"\x62"),
        (b"\x00\x10" + b"D" * 16, b"\x00\x0f" + b"D" * 15),
        (b"\x01\x0d\x00\x00\x00\x03", b"\x01\x0c\x00\x00\x03"),
        (b"\x00\x02\x02c", b"\x00\x03\x02cc"),
        (b"\x00\x02\x02c", b"\x00\x02\x04c"),
    ],
    ids=["high watermark", "directory", "replica state", "cluster id", "cluster id too long"],
)
def test_a_tag_of_the_wrong_size_is_malformed(old: bytes, new: bytes) -> None:
    frame = pack_request(18, 1, None, QUORUM_FETCH)[4:]
    assert frame.count(old) == 1
    _, body = parse_header(frame)
    with pytest.raises(MalformedFrame):
        parse_request(18, frame.replace(old, new), body)


@pytest.mark.parametrize("version", [4, 11])
def test_list_lengths_are_not_believed(version: int) -> None:
    frame = pack_request(version, 1, None, QUORUM_FETCH)[4:]
    _, body = parse_header(frame)
    lists = body + (17 if version < 7 else 25)
    for claim in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00"):
        with pytest.raises(MalformedFrame, match="a list of"):
            parse_request(version, frame[:lists] + claim + frame[lists + 4 :], body)

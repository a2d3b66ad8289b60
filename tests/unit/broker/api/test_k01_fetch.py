"""Fetch: names and ids, sessions on the wire, limits, and where the leader is."""

from typing import Any

import pytest

from tests.unit.broker.api.test_k00_produce import BATCH, produce, without_leaders
from tests.unit.broker.one_node import OneNode, Wire
from tidelog.env.effects import Closed, CloseReason
from tidelog.errors import ErrorCode
from tidelog.model import TopicId
from tidelog.wire import codec
from tidelog.wire import fetch as wire_fetch
from tidelog.wire.api import ApiKey
from tidelog.wire.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ForgottenPartition,
)
from tidelog.wire.values import millis

VERSIONS = range(4, 19)
UNKNOWN_ID = TopicId(b"?" * 16)


def wanted(node: OneNode, topic: str = "t", partition: int = 0, offset: int = 0) -> FetchPartition:
    found = node.broker.image.topics_by_name.get(topic)
    topic_id = found.topic_id if found else UNKNOWN_ID
    return FetchPartition(topic, topic_id, partition, -1, offset, -1, -1, 1 << 20)


def request(*partitions: FetchPartition, **changes: Any) -> FetchRequest:
    values = {
        "replica_id": -1,
        "replica_epoch": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "forgotten": [],
    }
    return FetchRequest(**{**values, **changes}, partitions=list(partitions))


def fetch(wire: Wire, version: int, asked: FetchRequest) -> FetchResponse:
    """The response, with topics by name or id as the version has them."""
    wire.send(wire_fetch.pack_request(version, 5, "test", asked))
    frames = wire.frames()
    while not frames:
        wire.node.advance(10)
        frames = wire.frames()
    correlation_id, response = wire_fetch.parse_response(version, frames[0])
    assert correlation_id == 5
    return response


def read(answer: FetchedPartition) -> bytes:
    return b"".join(bytes(chunk) for chunk in answer.records)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_produced_is_read(node, wire, version):
    produce(wire, 9)
    (answer,) = fetch(wire, version, request(wanted(node))).partitions
    assert answer.error_code is ErrorCode.NONE
    assert answer.high_watermark == answer.last_stable_offset == 2
    assert read(answer)[21:] == BATCH[21:]
    if version >= 13:
        assert answer.topic_id == wanted(node).topic_id
    else:
        assert answer.topic == "t"


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_topics(node, wire, version):
    (answer,) = fetch(wire, version, request(wanted(node, "absent"))).partitions
    by_id = version >= 13
    assert answer.error_code is (
        ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    assert (answer.topic_id == UNKNOWN_ID) if by_id else (answer.topic == "absent")


@pytest.mark.parametrize("version", [4, 12, 13, 18])
def test_unknown_partitions(node, wire, version):
    (answer,) = fetch(wire, version, request(wanted(node, partition=9))).partitions
    assert answer.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_unknown_topic_does_not_let_the_others_wait(node, wire):
    """An error answers at once, though nothing is there to read in `t`."""
    start = node.now
    asked = request(wanted(node), wanted(node, "absent"), max_wait_ms=30_000)
    response = fetch(wire, 12, asked)
    assert node.now == start
    assert {answer.topic for answer in response.partitions} == {"t", "absent"}


def test_a_fetch_waits_for_data_and_no_longer_than_it_asks(node, wire):
    start = node.now
    response = fetch(wire, 12, request(wanted(node), max_wait_ms=200))
    assert response.partitions[0].records_bytes == 0
    assert node.now == start + 200


def test_data_wakes_a_waiting_fetch(node, wire):
    asked = wire_fetch.pack_request(12, 5, "test", request(wanted(node), max_wait_ms=30_000))
    wire.send(asked)
    assert wire.frames() == []
    produce(node.client(), 9)
    (frame,) = wire.frames()
    _, response = wire_fetch.parse_response(12, frame)
    assert read(response.partitions[0])[21:] == BATCH[21:]


@pytest.mark.parametrize("version", VERSIONS)
def test_not_the_leader_names_the_leader(node, wire, version):
    node.add_broker(2)
    wire.create_topic("far", replicas=(2,))
    response = fetch(wire, version, request(wanted(node, "far")))
    (answer,) = response.partitions
    assert answer.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    if version >= 16:
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 0)
        ((node_id, end, rack),) = response.node_endpoints
        assert (node_id, end.host, end.port, rack) == (2, "host2", 9092, "rack2")


def test_without_a_leader_none_is_named(node, wire):
    node.add_broker(2)
    wire.create_topic("far", replicas=(2,))
    node.broker.image = without_leaders(node, "far")
    response = fetch(wire, 16, request(wanted(node, "far")))
    (answer,) = response.partitions
    assert answer.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader, response.node_endpoints) == (None, [])


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(0, ErrorCode.NONE), (1, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, ErrorCode.NONE)],
)
def test_the_leader_epoch_is_checked(node, wire, epoch, code):
    asked = request(wanted(node)._replace(current_leader_epoch=epoch))
    assert fetch(wire, 12, asked).partitions[0].error_code is code


@pytest.mark.parametrize("offset", [3, -1, 2**62])
def test_offsets_outside_of_the_log(node, wire, offset):
    produce(wire, 9)
    (answer,) = fetch(wire, 12, request(wanted(node, offset=offset))).partitions
    assert answer.error_code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_consumers_are_capped_by_the_broker(wire):
    node = OneNode(fetch_max_bytes="1024")
    client = node.client()
    client.create_topic("t", 2)
    for _ in range(20):
        produce(client, 9)
    asked = request(wanted(node), max_bytes=1 << 30)
    (answer,) = fetch(client, 12, asked).partitions
    assert len(BATCH) <= answer.records_bytes <= 1024


def test_who_waits_for_more_than_an_answer_may_have_is_answered_when_it_is_full():
    node = OneNode(fetch_max_bytes="1024")
    client = node.client()
    client.create_topic("t", 2)
    for _ in range(20):
        produce(client, 9)
    before = node.now
    asked = request(wanted(node), max_bytes=1 << 30, min_bytes=1 << 20, max_wait_ms=5000)
    (answer,) = fetch(client, 12, asked).partitions
    assert answer.records_bytes and node.now == before


def test_the_first_batch_comes_whole_above_every_limit(node, wire):
    produce(wire, 9)
    small = wanted(node)._replace(max_bytes=1)
    (answer,) = fetch(wire, 12, request(small, max_bytes=1)).partitions
    assert answer.records_bytes == len(BATCH)


# Sessions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7, 19))
def test_a_session_answers_with_news_only(node, wire, version):
    everything = (wanted(node), wanted(node, partition=1))
    full = fetch(wire, version, request(*everything, session_epoch=0))
    assert full.session_id > 0
    assert len(full.partitions) == 2
    session = {"session_id": full.session_id}

    idle = fetch(wire, version, request(**session, session_epoch=1))
    assert (idle.session_id, idle.partitions) == (full.session_id, [])

    produce(wire, 9, partition=1)
    news = fetch(wire, version, request(**session, session_epoch=2))
    assert [answer.partition for answer in news.partitions] == [1]
    moved = wanted(node, partition=1, offset=2)
    response = fetch(wire, version, request(moved, **session, session_epoch=3))
    assert response.partitions == []

    forgotten = ForgottenPartition("t", moved.topic_id, 1)
    produce(wire, 9, partition=1)
    gone = fetch(wire, version, request(**session, session_epoch=4, forgotten=[forgotten]))
    assert gone.partitions == []
    closing = fetch(wire, version, request(wanted(node), **session, session_epoch=-1))
    assert closing.session_id == 0
    assert len(node.broker.fetch_sessions) == 0


@pytest.mark.parametrize("version", [4, 5, 6])
def test_versions_without_sessions_make_none(node, wire, version):
    assert fetch(wire, version, request(wanted(node))).session_id == 0
    assert len(node.broker.fetch_sessions) == 0


@pytest.mark.parametrize(
    ("session_id", "epoch", "code"),
    [
        (4711, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (None, 5, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ],
)
def test_session_errors_stand_at_the_top(node, wire, session_id, epoch, code):
    full = fetch(wire, 12, request(wanted(node), session_epoch=0))
    asked = request(session_id=session_id or full.session_id, session_epoch=epoch)
    response = fetch(wire, 12, asked)
    assert (response.error_code, response.session_id, response.partitions) == (code, 0, [])


def test_a_session_keeps_to_names_or_ids(node, wire):
    full = fetch(wire, 12, request(wanted(node), session_epoch=0))
    response = fetch(wire, 13, request(session_id=full.session_id, session_epoch=1))
    assert response.error_code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_topic_that_appears_later_is_found_by_a_session_by_name(node, wire):
    full = fetch(wire, 12, request(wanted(node, "later"), session_epoch=0))
    assert full.partitions[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    wire.create_topic("later")
    asked = request(session_id=full.session_id, session_epoch=1)
    (answer,) = fetch(wire, 12, asked).partitions
    assert (answer.topic, answer.error_code) == ("later", ErrorCode.NONE)


def test_a_session_by_name_reads_the_topic_that_was_created_again(node, wire):
    produce(wire, 9)
    full = fetch(wire, 12, request(wanted(node), session_epoch=0))
    assert full.partitions[0].records_bytes
    delete_type = codec.request_class(ApiKey.DELETE_TOPICS, 5)
    wire.ask(ApiKey.DELETE_TOPICS, delete_type(topic_names=("t",), timeout=millis(1000)))
    wire.create_topic("t")
    asked = request(session_id=full.session_id, session_epoch=1)
    (answer,) = fetch(wire, 12, asked).partitions
    assert (answer.error_code, answer.high_watermark) == (ErrorCode.NONE, 0)


def test_a_topic_that_disappears_is_an_error_of_its_session(node, wire):
    full = fetch(wire, 13, request(wanted(node), session_epoch=0))
    delete_type = codec.request_class(ApiKey.DELETE_TOPICS, 5)
    wire.ask(ApiKey.DELETE_TOPICS, delete_type(topic_names=("t",), timeout=millis(1000)))
    asked = request(session_id=full.session_id, session_epoch=1)
    (answer,) = fetch(wire, 13, asked).partitions
    assert answer.error_code is ErrorCode.UNKNOWN_TOPIC_ID


def test_the_end_of_a_followers_connection_makes_it_doubtful() -> None:
    """Goal: a leader notices the death of a broker that only follows it; a consumer's connection,
    or that of a follower that is refused, says nothing."""
    node = OneNode()
    epoch = node.add_broker(2)
    for replica_id, replica_epoch, in_doubt in ((-1, -1, set()), (2, -1, set()), (2, epoch, {2})):
        wire = node.client()
        asked = request(replica_id=replica_id, replica_epoch=replica_epoch)
        fetch(wire, VERSIONS[-1], asked)
        node.receive(Closed(wire.connection_id, CloseReason.PEER))
        assert node.broker.unreachable == in_doubt


def test_a_topic_without_a_name(node, wire):
    asked = request(FetchPartition("", UNKNOWN_ID, 0, -1, 0, -1, -1, 1 << 20))
    for version, code in ((12, "UNKNOWN_TOPIC_OR_PARTITION"), (13, "UNKNOWN_TOPIC_ID")):
        assert fetch(wire, version, asked).partitions[0].error_code.name == code

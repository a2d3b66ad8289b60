"""Produce: what is refused before the log is asked, silence, and where the leader is."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.broker.one_node import OneNode, Wire
from tidelog.broker.api.k00_produce import _has_many_producers
from tidelog.errors import ErrorCode
from tidelog.metadata.image import MetadataImage
from tidelog.model import INTERNAL_TOPICS, NO_LEADER, ZERO_TOPIC_ID
from tidelog.records.batch import build_batch
from tidelog.records.compression import Codec
from tidelog.records.record import Record
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import field, make
from tidelog.wire.produce import ProducePartition, ProduceRequest
from tidelog.wire.values import bytes_of, error_of, millis, uuid_of

VERSIONS = range(3, 14)
RECORDS = [Record(1_700_000_000_000, b"k", b"v"), Record(1_700_000_000_001, b"k", b"w")]
BATCH = build_batch(RECORDS)


def request_of(
    wire: Wire,
    version: int,
    *,
    topic: str = "t",
    partition: int = 0,
    records: bytes | None = BATCH,
    acks: int = -1,
    transactional_id: str | None = None,
) -> Any:
    """A request for one partition."""
    entity_type = codec.request_class(ApiKey.PRODUCE, version)
    data = {"index": partition, "records": records}
    topic_id = id_of(wire, topic)
    return make(
        entity_type,
        transactional_id=transactional_id,
        acks=acks,
        timeout=millis(1000),
        topic_data=({"name": topic, "topic_id": uuid_of(topic_id), "partition_data": (data,)},),
    )


def transactional(sequence: int, producer_id: int = 5, producer_epoch: int = 0) -> bytes:
    """A batch of a transaction."""
    return build_batch(
        [Record(1, None, b"v")],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        is_transactional=True,
    )


def id_of(wire: Wire, topic: str) -> bytes:
    found = wire.node.broker.image.topics_by_name.get(topic)
    return found.topic_id if found else b"?" * 16


def produce(
    wire: Wire, version: int, *, topic: str = "t", client_id: str = "test", **values: Any
) -> Any:
    """The answer for the one partition of a request."""
    entity = request_of(wire, version, topic=topic, **values)
    frame = wire.ask(ApiKey.PRODUCE, entity, client_id)
    assert frame is not None, "closed"
    _, response = codec.decode_response(ApiKey.PRODUCE, version, frame)
    (answered,) = response.responses
    if version < 13:
        assert answered.name == topic
    else:
        assert bytes_of(answered.topic_id) == id_of(wire, topic)
    (answer,) = answered.partition_responses
    assert answer.index == values.get("partition", 0)
    return answer


def code(answer: Any) -> ErrorCode:
    return error_of(answer.error_code)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", VERSIONS)
def test_records_get_their_offsets(wire, version, acks):
    first = produce(wire, version, acks=acks)
    second = produce(wire, version, acks=acks)
    assert code(first) is code(second) is ErrorCode.NONE
    assert (first.base_offset, second.base_offset) == (0, 2)
    assert field(second, "log_start_offset", 0) == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_topics_and_partitions(wire, version):
    unknown = produce(wire, version, topic="absent")
    by_id = version >= 13
    assert code(unknown) is (
        ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    assert unknown.base_offset == -1
    outside = produce(wire, version, partition=2)
    assert code(outside) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", list(Codec))
def test_zstd_needs_version_seven(wire, version, kind):
    for value in (b"a", b"b", b"c"):
        compressed = build_batch([Record(1, None, value)], codec=kind)
        answer = produce(wire, version, records=compressed)
        refused = kind is Codec.ZSTD and version < 7
        assert code(answer) is (
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE if refused else ErrorCode.NONE
        )


@pytest.mark.parametrize("version", [3, 9, 13])
def test_transactional_records_without_a_transaction_are_refused(wire, version):
    """Accepted, they would open a transaction that no client can end, and readers of committed data
    would wait at its first record for ever."""
    for value in (b"a", b"b", b"c"):
        batch = build_batch(
            [Record(1, None, value)],
            producer_id=5,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        answer = produce(wire, version, records=batch)
        assert code(answer) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert produce(wire, version).base_offset == 0


@pytest.mark.parametrize(("version", "expected"), [(3, 19), (11, 19), (13, 19)])
def test_without_a_coordinator_no_transaction_begins(wire, version, expected):
    """NOT_ENOUGH_REPLICAS makes every client try again."""
    batch = transactional(0)
    assert code(produce(wire, version, records=batch, transactional_id="tx")) == expected
    log = wire.node.broker.replicas.partitions["t", 0].log
    assert (log.log_end_offset, log.last_stable_offset) == (0, 0)
    assert produce(wire, version, transactional_id="tx").base_offset == 0


def test_records_of_two_producers_are_in_no_transaction():
    request = ProduceRequest(
        "tx",
        -1,
        1000,
        [
            ProducePartition("t", ZERO_TOPIC_ID, number, memoryview(transactional(0, number)))
            for number in (0, 1)
        ],
    )
    assert _has_many_producers(request)
    assert not _has_many_producers(request._replace(partitions=request.partitions[:1]))


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_other_acks_are_refused_and_nothing_is_written(wire, acks):
    assert code(produce(wire, 9, acks=acks)) is ErrorCode.INVALID_REQUIRED_ACKS
    assert produce(wire, 9).base_offset == 0


@pytest.mark.parametrize(
    "records",
    [None, b"", bytes(22), bytes(23), bytes(61), BATCH * 2],
    ids=["null", "empty", "short", "flags only", "zeros", "two batches"],
)
def test_anything_but_one_batch_is_not_a_record(wire, records):
    assert code(produce(wire, 9, records=records)) is ErrorCode.INVALID_RECORD


def test_damaged_batches_differ_from_wrong_ones(wire):
    damaged = bytearray(BATCH)
    damaged[-1] ^= 1
    assert code(produce(wire, 9, records=bytes(damaged))) is ErrorCode.CORRUPT_MESSAGE
    assert code(produce(wire, 9, records=BATCH[:-1])) is ErrorCode.CORRUPT_MESSAGE
    assert produce(wire, 9).base_offset == 0


@pytest.mark.parametrize("topic", sorted(INTERNAL_TOPICS))
def test_internal_topics_are_not_for_clients(node, wire, topic):
    wire.create_topic(topic)
    assert code(produce(wire, 9, topic=topic)) is ErrorCode.INVALID_TOPIC_EXCEPTION
    admin = produce(wire, 9, topic=topic, client_id="__admin_client")
    assert code(admin) is ErrorCode.NONE


# acks=0 ------------------------------------------------------------------------------------


def test_acks_zero_is_answered_by_silence(wire):
    entity = request_of(wire, 9, acks=0)
    wire.send(codec.encode_request(entity, 1, "test"))
    assert wire.frames() == []
    assert not wire.closed
    assert produce(wire, 9).base_offset == 2


def test_a_failed_acks_zero_closes_the_connection_behind_earlier_replies(wire):
    good = codec.encode_request(request_of(wire, 9, acks=-1), 1, "test")
    bad = codec.encode_request(request_of(wire, 9, acks=0, topic="absent"), 2, "test")
    wire.send(good + bad + good)
    frames = wire.frames()
    assert [int.from_bytes(frame[:4], "big") for frame in frames] == [1]
    assert wire.closed


# Leaders elsewhere -------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_not_the_leader_names_the_leader_and_its_endpoint(node: OneNode, wire, version):
    node.add_broker(2)
    wire.create_topic("far", replicas=(2,))
    entity = request_of(wire, version, topic="far")
    _, response = codec.decode_response(
        ApiKey.PRODUCE, version, wire.ask(ApiKey.PRODUCE, entity) or b""
    )
    (answer,) = response.responses[0].partition_responses
    assert code(answer) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    if version >= 10:
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 0)
        (end,) = response.node_endpoints
        assert (end.node_id, end.host, end.port, end.rack) == (2, "host2", 9092, "rack2")


def without_leaders(node: OneNode, topic: str) -> MetadataImage:
    """The image as if no broker led the topic's first partition."""
    image = node.broker.image
    found = image.topics_by_name[topic]
    changed = replace(found, partitions={0: replace(found.partitions[0], leader=NO_LEADER)})
    return replace(
        image,
        topics_by_name={**image.topics_by_name, topic: changed},
        topics_by_id={**image.topics_by_id, found.topic_id: changed},
    )


def test_without_a_leader_none_is_named(node: OneNode, wire):
    node.add_broker(2)
    wire.create_topic("far", replicas=(2,))
    entity = request_of(wire, 10, topic="far")
    node.broker.image = without_leaders(node, "far")
    _, response = codec.decode_response(ApiKey.PRODUCE, 10, wire.ask(ApiKey.PRODUCE, entity) or b"")
    (answer,) = response.responses[0].partition_responses
    assert code(answer) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (-1, -1)
    assert response.node_endpoints == ()


def test_good_and_bad_partitions_share_a_request(wire):
    entity_type = codec.request_class(ApiKey.PRODUCE, 9)
    entity = make(
        entity_type,
        transactional_id=None,
        acks=-1,
        timeout=millis(1000),
        topic_data=tuple(
            {"name": name, "partition_data": ({"index": 0, "records": BATCH},)}
            for name in ("absent", "t")
        ),
    )
    frame = wire.ask(ApiKey.PRODUCE, entity)
    _, response = codec.decode_response(ApiKey.PRODUCE, 9, frame)
    codes = {topic.name: code(topic.partition_responses[0]) for topic in response.responses}
    assert codes == {"t": ErrorCode.NONE, "absent": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

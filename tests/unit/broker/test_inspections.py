"""Large batches of clients are looked into beside the loop, and nothing else waits for that."""

from typing import NamedTuple

import pytest

from tests.unit.broker.api.test_k00_produce import RECORDS, request_of
from tests.unit.broker.one_node import OneNode, Wire
from tidelog.env.effects import Closed, CloseReason, Received
from tidelog.errors import ErrorCode
from tidelog.limits import MAX_INSPECTED_AT_ONCE_BYTES, MAX_INSPECTED_AT_ONCE_RECORDS
from tidelog.log.state import LogState
from tidelog.records.batch import build_batch, read_header
from tidelog.records.compression import Codec
from tidelog.records.record import Record
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.values import error_of, millis

VERSION = 9


class Answer(NamedTuple):
    number: int
    code: ErrorCode
    offset: int


def batch(record: Record, kind: Codec = Codec.NONE, sequence: int = -1) -> bytes:
    """With a sequence it is of a producer."""
    producer_id, epoch = (5, 0) if sequence >= 0 else (-1, -1)
    return build_batch(
        [record], codec=kind, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )


def packed(key: bytes | None = b"k", kind: Codec = Codec.ZSTD, sequence: int = -1) -> bytes:
    """One record of a megabyte, in some hundred bytes or a few thousand."""
    return batch(Record(1, key, bytes(1 << 20)), kind, sequence)


def small(sequence: int = -1) -> bytes:
    """One small record."""
    return batch(Record(1, b"k", b"v"), sequence=sequence)


def node_with(**configs: str) -> OneNode:
    """A node with topic `t`; the test says when what is beside the loop is done."""
    node = OneNode()
    node.client().create_topic("t", **configs)
    node.run_until(lambda: not node.broker.replicas.is_behind)
    node.computes_later = True
    return node


def send(wire: Wire, number: int, records: bytes, acks: int = 1) -> None:
    request = codec.encode_request(
        request_of(wire, VERSION, records=records, acks=acks), number, "test"
    )
    wire.node.receive(Received(wire.connection_id, request))


def answers(wire: Wire) -> list[Answer]:
    """What has come since that was asked for last."""
    found = []
    for frame in wire.frames():
        number, entity = codec.decode_response(ApiKey.PRODUCE, VERSION, frame)
        (row,) = entity.responses[0].partition_responses
        found.append(Answer(number, error_of(row.error_code), row.base_offset))
    return found


def compute(node: OneNode) -> None:
    """What is beside the loop is done, and the tick behind that."""
    node.compute()
    node.settle()


def log_of(node: OneNode) -> LogState:
    return node.broker.replicas.partitions["t", 0].log


@pytest.mark.parametrize("kind", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_other_clients_are_answered_meanwhile_and_the_same_client_in_order(kind):
    node = node_with(cleanup_policy="compact")
    slow, other = node.client(), node.client()
    send(slow, 1, packed(kind=kind))
    send(slow, 2, packed(kind=kind)[:61])
    send(slow, 3, small())
    send(other, 7, small())
    assert answers(slow) == []
    assert answers(other) == [Answer(7, ErrorCode.NONE, 0)]
    compute(node)
    assert answers(slow) == [
        Answer(1, ErrorCode.NONE, 1),
        Answer(2, ErrorCode.CORRUPT_MESSAGE, -1),
        Answer(3, ErrorCode.NONE, 2),
    ]
    assert not node.computes


def test_what_does_not_take_long_is_done_at_once():
    node = node_with(cleanup_policy="compact", compression_type="gzip")
    wire = node.client()
    value = bytes(MAX_INSPECTED_AT_ONCE_BYTES // 2)
    for number, kind in enumerate(Codec):
        send(wire, number, build_batch([Record(1, b"k", value)], codec=kind))
        assert answers(wire) == [Answer(number, ErrorCode.NONE, number)]
    assert not node.computes


@pytest.mark.parametrize("config", [{}, {"compression_type": "zstd"}])
def test_what_the_header_decides_is_not_looked_into(config):
    node = node_with(**config)
    wire = node.client()
    for number in range(2):
        send(wire, number, packed())
        assert answers(wire) == [Answer(number, ErrorCode.NONE, number)]
    assert not node.computes


@pytest.mark.parametrize("kind", [Codec.NONE, Codec.ZSTD])
def test_many_records_are_left_to_the_thread_as_many_bytes_are(kind):
    node = node_with(cleanup_policy="compact")
    wire = node.client()
    records = [Record(1, b"k", bytes(100))] * (MAX_INSPECTED_AT_ONCE_RECORDS + 500)
    send(wire, 1, build_batch(records, codec=kind))
    assert answers(wire) == []
    compute(node)
    assert answers(wire) == [Answer(1, ErrorCode.NONE, 0)]
    assert log_of(node).log_end_offset == len(records)


def test_it_is_packed_anew_beside_the_loop():
    node = node_with(compression_type="gzip")
    wire = node.client()
    send(wire, 1, packed(sequence=0))
    effect = node.computes[0]
    judged = effect.function()
    assert read_header(judged.records).codec == Codec.GZIP
    compute(node)
    assert answers(wire) == [Answer(1, ErrorCode.NONE, 0)]
    assert log_of(node).segments.active.size_bytes == len(judged.records)


def test_refusals_are_those_of_small_batches():
    node = node_with(cleanup_policy="compact")
    wire = node.client()
    damaged, short = bytearray(packed()), packed()[:61]
    damaged[-4:] = bytes(4)
    for number, bad in enumerate((packed(key=None), bytes(damaged), short)):
        send(wire, number, bad)
        if node.computes:
            compute(node)
    codes = [each.code for each in answers(wire)]
    assert codes == [ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE]
    assert log_of(node).log_end_offset == 0


def test_the_sequences_of_a_producer_stay_in_order():
    """Its next batch is smaller and does not overtake; a repetition is known by the first one."""
    node = node_with(cleanup_policy="compact")
    wire, again = node.client(), node.client()
    send(wire, 1, packed(sequence=0))
    send(wire, 2, small(1))
    send(again, 3, packed(sequence=0))
    compute(node)
    assert answers(wire) == [Answer(1, ErrorCode.NONE, 0), Answer(2, ErrorCode.NONE, 1)]
    compute(node)
    assert answers(again) == [Answer(3, ErrorCode.NONE, 0)]
    assert log_of(node).log_end_offset == 2


def test_one_request_at_a_time_and_those_of_closed_connections_not_at_all():
    node = node_with(cleanup_policy="compact")
    first, second, third = (node.client() for _ in range(3))
    for number, wire in enumerate((first, second, third)):
        send(wire, number, packed())
        assert len(node.computes) == 1
    for wire in (first, second):
        node.receive(Closed(wire.connection_id, CloseReason.PEER))
    compute(node)
    assert log_of(node).log_end_offset == 0
    compute(node)
    assert answers(third) == [Answer(2, ErrorCode.NONE, 0)]
    assert not node.computes


def test_a_last_batch_without_acks_outlives_its_connection():
    node = node_with(cleanup_policy="compact")
    first, last = node.client(), node.client()
    send(first, 0, packed())
    send(last, 1, packed(), acks=0)
    for wire in (first, last):
        node.receive(Closed(wire.connection_id, CloseReason.PEER))
    compute(node)
    assert log_of(node).log_end_offset == 0
    compute(node)
    assert log_of(node).log_end_offset == 1
    assert not node.computes


def test_all_batches_of_a_request_are_appended_together():
    """The one in the middle is looked into at once, and the buffer of the request is gone when the
    others are."""
    node = OneNode()
    wire = node.client()
    wire.create_topic("t", 3, cleanup_policy="compact")
    node.run_until(lambda: not node.broker.replicas.is_behind)
    node.computes_later = True
    at_once = build_batch(RECORDS, codec=Codec.LZ4)
    rows = tuple(
        {"index": index, "records": records}
        for index, records in enumerate((packed(), at_once, packed()))
    )
    topic = {"name": "t", "topic_id": None, "partition_data": rows}
    kind = codec.request_class(ApiKey.PRODUCE, VERSION)
    whole = make(kind, transactional_id=None, acks=1, timeout=millis(1000), topic_data=(topic,))
    node.receive(Received(wire.connection_id, codec.encode_request(whole, 1, "test")))
    ends = [node.broker.replicas.partitions["t", each].log for each in range(3)]
    compute(node)
    assert [each.log_end_offset for each in ends] == [0, 0, 0]
    compute(node)
    assert [each.log_end_offset for each in ends] == [1, 2, 1]
    assert len(wire.frames()) == 1
    for log in ends:
        log.tail.clear()
        log.verify()


def test_what_has_changed_meanwhile_counts():
    """The topic is gone when its batch is known."""
    node = node_with(cleanup_policy="compact")
    wire = node.client()
    send(wire, 1, packed(), acks=-1)
    admin = node.client()
    admin.call(ApiKey.DELETE_TOPICS, 5, topic_names=("t",), timeout=millis(1000))
    node.run_until(lambda: ("t", 0) not in node.broker.replicas.partitions)
    compute(node)
    assert [each.code for each in answers(wire)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_what_waits_is_held_of_its_connection():
    node = node_with(cleanup_policy="compact")
    wire, large = node.client(), packed()
    send(wire, 1, large)
    assert node.broker.connections.held.total_bytes == len(large)
    compute(node)
    assert node.broker.connections.held.total_bytes == 0

"""DeleteRecords on a node: records go up to an offset, and every partition has its own answer."""

import pytest

from tests.unit.broker.api.wire_turns import versions
from tidelog.env.effects import Closed, CloseReason
from tidelog.errors import ErrorCode
from tidelog.model import ZERO_TOPIC_ID
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.wire import codec
from tidelog.wire import produce as wire_produce
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.produce import ProducePartition, ProduceRequest
from tidelog.wire.values import error_of, millis

KEY = ApiKey.DELETE_RECORDS
VERSIONS = versions(KEY)


def produce(wire, count, topic="t"):
    """So many records, one batch each."""
    for index in range(count):
        records = memoryview(build_batch([Record(1000, b"k", b"%d" % index, ())]))
        parts = [ProducePartition(topic, ZERO_TOPIC_ID, 0, records)]
        wire.send(wire_produce.pack_request(9, index, "c", ProduceRequest(None, -1, 1000, parts)))
        (frame,) = wire.frames()
        _, response = wire_produce.parse_response(9, frame)
        assert response.partitions[0].error_code is ErrorCode.NONE


def delete(wire, version, offsets, timeout_ms=1000):
    """Asks to delete; (topic, partition, code, low watermark) of every answer."""
    topics = tuple(
        {
            "name": name,
            "partitions": tuple(
                {"partition_index": index, "offset": offset} for index, offset in partitions.items()
            ),
        }
        for name, partitions in offsets.items()
    )
    response = wire.call(KEY, version, topics=topics, timeout=millis(timeout_ms))
    return [
        (topic.name, row.partition_index, error_of(row.error_code), row.low_watermark)
        for topic in response.topics
        for row in topic.partitions
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_below_the_offset_is_gone(node, wire, version):
    produce(wire, 5)
    assert delete(wire, version, {"t": {0: 3, 1: -1}}) == [
        ("t", 0, ErrorCode.NONE, 3),
        ("t", 1, ErrorCode.NONE, 0),
    ]
    log = node.broker.replicas.partitions["t", 0].log
    assert (log.log_start_offset, log.log_end_offset) == (3, 5)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_partition_has_its_own_error(wire, version):
    produce(wire, 2)
    wire.create_topic("__consumer_offsets")
    wire.create_topic("compacted", cleanup_policy="compact")
    wanted = {
        "t": {0: 3, 1: -2, 7: 0},
        "nothing": {0: 0},
        "__consumer_offsets": {0: 0},
        "compacted": {0: 0},
    }
    found = {(name, index): (code, low) for name, index, code, low in delete(wire, version, wanted)}
    assert found == {
        ("t", 0): (ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        ("t", 1): (ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        ("t", 7): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("nothing", 0): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("__consumer_offsets", 0): (ErrorCode.INVALID_TOPIC_EXCEPTION, -1),
        ("compacted", 0): (ErrorCode.POLICY_VIOLATION, -1),
    }


def test_both_policies_together_allow_it(wire):
    wire.create_topic("both", cleanup_policy="compact,delete")
    produce(wire, 2, "both")
    assert delete(wire, 2, {"both": {0: 1}}) == [("both", 0, ErrorCode.NONE, 1)]


def test_a_replica_that_never_fetches_makes_the_request_time_out(node, wire):
    node.add_broker(2)
    wire.create_topic("two", replicas=(1, 2))
    assert delete(wire, 2, {"two": {0: 0}}, timeout_ms=300) == [
        ("two", 0, ErrorCode.REQUEST_TIMED_OUT, -1)
    ]


def test_a_client_that_has_gone_is_not_answered(node, wire):
    node.add_broker(2)
    wire.create_topic("two", replicas=(1, 2))
    partition = {"partition_index": 0, "offset": 0}
    topics = ({"name": "two", "partitions": (partition,)},)
    entity = make(codec.request_class(KEY, 2), topics=topics, timeout=millis(300))
    wire.send(codec.encode_request(entity, 1, "c"))
    node.receive(Closed(wire.connection_id, CloseReason.PEER))
    node.advance(400)
    assert not wire.frames()

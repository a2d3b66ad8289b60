"""A client whose batches are at fault leaves one line in the log, with what was wrong."""

import pytest

from tests.unit.broker.one_node import OneNode, Wire
from tidelog.broker.events import BatchesRefused
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.values import millis

GOOD = build_batch([Record(1_700_000_000_000, b"k", b"v")])
BAD_CRC = GOOD[:-1] + b"?"


def produce(wire: Wire, acks: int, *batches: bytes | None) -> None:
    """One request with a batch for each of the topic's first partitions."""
    entity_type = codec.request_class(ApiKey.PRODUCE, 7)
    partitions = tuple({"index": i, "records": b} for i, b in enumerate(batches))
    topic = {"name": "t", "partition_data": partitions}
    wire.ask(ApiKey.PRODUCE, make(entity_type, acks=acks, timeout=millis(9), topic_data=(topic,)))


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize(
    ("records", "reason"),
    [
        (BAD_CRC, "CORRUPT_MESSAGE: batch of 70 bytes has a wrong checksum"),
        (GOOD[:20], "INVALID_RECORD: expected one record batch, got 20 bytes"),
        (None, "INVALID_RECORD: a partition without records"),
    ],
)
def test_a_bad_batch_is_logged_once_with_its_reason(acks, records, reason):
    node = OneNode()
    wire = node.client()
    wire.create_topic("t", 3)
    before = len(node.trace.events)
    produce(wire, acks, GOOD, records, records)
    (refused,) = [e for e in node.trace.events[before:] if isinstance(e, BatchesRefused)]
    assert refused.why() == reason
    assert dict(refused.shown()) == {"partition": "t-1", "batches": 2, "peer": "peer"}


def test_good_batches_are_not_logged():
    node = OneNode()
    wire = node.client()
    wire.create_topic("t")
    before = len(node.trace.events)
    produce(wire, -1, GOOD)
    assert node.trace.events[before:] == []

"""DescribeProducers: what a leader knows of its producers, and their open transactions."""

from tests.unit.broker.api.test_k00_produce import produce, transactional
from tidelog.errors import ErrorCode
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of


def describe(wire, topic, *numbers):
    topics = [{"name": topic, "partition_indexes": numbers}]
    response = wire.call(ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics)
    return {
        row.partition_index: (
            error_of(row.error_code),
            [
                (
                    each.producer_id,
                    each.producer_epoch,
                    each.last_sequence,
                    each.coordinator_epoch,
                    each.current_txn_start_offset,
                )
                for each in row.active_producers
            ],
        )
        for found in response.topics
        for row in found.partitions
    }


def test_open_transactions_are_shown_with_their_beginning(node, wire):
    records = [Record(1, None, b"a"), Record(1, None, b"b")]
    plain = build_batch(records, producer_id=4, producer_epoch=2, base_sequence=0)
    assert produce(wire, 9, records=plain).base_offset == 0
    node.broker.replicas.partitions["t", 0].log.append_as_leader(transactional(0), 0, 0)
    assert describe(wire, "t", 0, 1, 9) == {
        0: (ErrorCode.NONE, [(4, 2, 1, -1, -1), (5, 0, 0, -1, 2)]),
        1: (ErrorCode.NONE, []),
        9: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
    }
    assert describe(wire, "nothing", 0)[0][0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(wire, "no/topic", 0)[0][0] is ErrorCode.INVALID_TOPIC_EXCEPTION

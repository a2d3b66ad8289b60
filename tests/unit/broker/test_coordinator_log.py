"""Goal: what a coordinator appends lies in its log as it means it, and only while it leads."""

import pytest

from tests.unit.broker.api.group_client import one_node
from tidelog.broker.coordinator_log import CoordinatorLog
from tidelog.kraft.messages import NotLeader
from tidelog.model import OFFSETS_TOPIC, TopicId, TopicPartition
from tidelog.records.batch import iter_headers
from tidelog.records.control import EndTxnMarker, read_end_txn_marker
from tidelog.records.pairs import decode_pairs
from tidelog.rsm.log_records import InTransaction, TransactionEnd

P0 = TopicPartition(OFFSETS_TOPIC, 0)
A, B = (b"a", b"1"), (b"b", None)


def log_of(node, topic_id=None, leader_epoch=None):
    partition = node.broker.replicas.partitions[P0]
    return CoordinatorLog(
        node.broker.replicas,
        P0,
        topic_id or partition.topic_id,
        partition.leader_epoch if leader_epoch is None else leader_epoch,
    )


def test_records_and_those_of_a_transaction_and_its_end_are_batches_of_their_own():
    node = one_node()
    log = log_of(node)
    assert log.is_led and log.end_offset == log.start_offset == 0
    assert log.append([A, B]) == 1
    assert log.append([InTransaction(A, 7, 3)]) == 2
    assert log.append([TransactionEnd(7, 3, EndTxnMarker(True, 0))]) == 3
    node.settle()
    assert log.high_watermark == log.end_offset == 4
    data = log.read(0, 1 << 20, node.now)
    (at_0, plain), (at_1, written), (at_2, end) = iter_headers(data)
    assert decode_pairs(data, at_0, plain) == [A, B] and not plain.is_transactional
    assert decode_pairs(data, at_1, written) == [A] and written.is_transactional
    assert (written.producer_id, written.producer_epoch) == (7, 3)
    assert end.is_control and read_end_txn_marker(data, at_2) == EndTxnMarker(True, 0)


def test_another_epoch_or_another_topic_of_that_name_is_not_its_log():
    node = one_node()
    epoch = node.broker.replicas.partitions[P0].leader_epoch
    late = log_of(node, leader_epoch=epoch - 1)
    assert not late.is_led
    with pytest.raises(NotLeader):
        late.append([A])
    assert not log_of(node, topic_id=TopicId(b"u" * 16)).is_led

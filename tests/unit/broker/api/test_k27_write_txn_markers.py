"""WriteTxnMarkers: who may end a transaction, and that it ends in all its partitions."""

import sys

import pytest

from tests.unit.broker.api.test_k00_produce import transactional
from tests.unit.broker.api.wire_turns import versions
from tests.unit.broker.one_node import OneNode
from tidelog.broker.api import k27_write_txn_markers
from tidelog.records.batch import read_header
from tidelog.records.control import EndTxnMarker, read_end_txn_marker
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

KEY = ApiKey.WRITE_TXN_MARKERS
VERSIONS = versions(KEY)


def mark(wire, version, *markers):
    """(epoch, commit, coordinator epoch, transaction version, topics) of producer 5."""
    rows = [
        {
            "producer_id": 5,
            "producer_epoch": epoch,
            "transaction_result": commit,
            "coordinator_epoch": coordinator_epoch,
            "transaction_version": transaction_version,
            "topics": [
                {"name": name, "partition_indexes": numbers} for name, numbers in topics.items()
            ],
        }
        for epoch, commit, coordinator_epoch, transaction_version, topics in markers
    ]
    response = wire.call(KEY, version, markers=rows)
    return [
        {
            (topic.name, row.partition_index): error_of(row.error_code).name
            for topic in marker.topics
            for row in topic.partitions
        }
        for marker in response.markers
    ]


def opened(node, number=0, epoch=0):
    """The log of a partition with an open transaction."""
    log = node.broker.replicas.partitions["t", number].log
    log.append_as_leader(transactional(0, producer_epoch=epoch), 0, 0)
    node.broker.replicas.end_tick(node.now)
    return log


@pytest.mark.parametrize("version", VERSIONS)
def test_a_transaction_ends_in_all_its_partitions(node, wire, version):
    logs = [opened(node, 0), opened(node, 1)]
    assert [log.last_stable_offset for log in logs] == [0, 0]
    topics = {"t": (0, 1, 7), "nothing": (0,)}
    (codes,) = mark(wire, version, (0, True, 3, 0, topics))
    assert codes == {
        ("t", 0): "NONE",
        ("t", 1): "NONE",
        ("t", 7): "UNKNOWN_TOPIC_OR_PARTITION",
        ("nothing", 0): "UNKNOWN_TOPIC_OR_PARTITION",
    }
    for log in logs:
        assert log.last_stable_offset == log.log_end_offset == 2
        (chunk,) = log.read(1, 1000, 2, at_least_one=True).chunks
        assert read_end_txn_marker(bytes(chunk)) == EndTxnMarker(True, 3)
        assert read_header(bytes(chunk)).base_sequence == -1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_repetition_changes_nothing_and_a_deposed_coordinator_is_fenced(node, wire, version):
    log, topics = opened(node), {"t": (0,)}
    both = mark(wire, version, (0, False, 3, 0, topics), (0, False, 3, 0, topics))
    assert [codes["t", 0] for codes in both] == ["NONE", "NONE"]
    assert len(log.aborted_in(0, 10)) == 1
    (codes,) = mark(wire, version, (0, False, 2, 0, topics))
    assert codes["t", 0] == "TRANSACTION_COORDINATOR_FENCED"
    opened(node, epoch=1)
    (codes,) = mark(wire, version, (0, False, 4, 0, topics))
    assert codes["t", 0] == "INVALID_PRODUCER_EPOCH"
    assert log.producers.has_open_transaction(5, 1)


def test_a_late_marker_does_not_end_the_next_transaction(node, wire):
    """Version 2 says whose epoch it has; version 1 cannot."""
    log, topics = opened(node), {"t": (0,)}
    assert mark(wire, 2, (1, True, 0, 2, topics)) == [{("t", 0): "NONE"}]
    opened(node, epoch=1)
    assert mark(wire, 2, (1, True, 0, 2, topics)) == [{("t", 0): "INVALID_PRODUCER_EPOCH"}]
    assert log.producers.has_open_transaction(5, 1)


def test_no_markers_are_answered_at_once():
    assert mark(OneNode().client(), 2) == []


@pytest.mark.parametrize(
    ("epoch", "code"), [(-1, "INVALID_REQUEST"), (-2, "INVALID_PRODUCER_EPOCH")]
)
def test_a_marker_without_a_producer_is_not_written(node, wire, epoch, code):
    """As in Kafka, an epoch below that of no producer is one that is over."""
    log = opened(node)
    end = log.log_end_offset
    (codes,) = mark(wire, 2, (epoch, True, 0, 0, {"t": (0, 7)}))
    assert codes == {("t", 0): code, ("t", 7): "UNKNOWN_TOPIC_OR_PARTITION"}
    assert log.log_end_offset == end


def test_the_answer_takes_as_many_steps_as_there_are_rows(wire):
    """Not markers times rows: one request of a megabyte held a node for minutes."""
    markers = [(0, True, 0, 0, {"nothing": (0, 1), "t": ()})] * 500
    steps = 0

    def count(frame, event, _):
        nonlocal steps
        steps += event == "line"
        return count

    def trace(frame, event, _):
        return count if frame.f_code is k27_write_txn_markers._response.__code__ else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        answers = mark(wire, 2, *markers)
    finally:
        sys.settrace(before)
    unknown = dict.fromkeys((("nothing", 0), ("nothing", 1)), "UNKNOWN_TOPIC_OR_PARTITION")
    assert answers == [unknown] * 500
    assert 500 < steps < 20_000

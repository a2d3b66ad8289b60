"""Control batches: Kafka's own are understood, ours equal them."""

import pytest

from tests.control_batches import build_control_batch
from tests.fixtures import kafka_files
from tidelog.errors import CorruptBatch
from tidelog.records.batch import build_batch, iter_headers, read_header
from tidelog.records.control import (
    ControlType,
    EndTxnMarker,
    build_end_txn_marker,
    kraft_version_value,
    leader_change_value,
    read_control_records,
    read_end_txn_marker,
    snapshot_footer_value,
    snapshot_header_value,
)
from tidelog.records.record import Record


def test_a_leader_change_equals_kafkas() -> None:
    """Goal: golden; the first batch of Kafka's metadata log, bit for bit."""
    data = kafka_files("node1")["__cluster_metadata-0/00000000000000000000.log"]
    header = read_header(data)
    ours = build_control_batch(
        ControlType.LEADER_CHANGE,
        leader_change_value(3, [1, 2, 3], [3, 2]),
        header.base_timestamp,
        leader_epoch=header.leader_epoch,
    )
    assert ours == data[: header.size_bytes]


def test_a_snapshot_header_equals_kafkas() -> None:
    """Goal: golden; header and footer of Kafka's bootstrap snapshot."""
    data = kafka_files("node1")["bootstrap.checkpoint"]
    records = [
        record
        for position, header in iter_headers(data)
        if header.is_control
        for record in read_control_records(data, position)
    ]
    assert [record.control_type for record in records] == [3, 4]
    assert records[0].value == snapshot_header_value(0)
    assert records[1].value == snapshot_footer_value()


def test_kafkas_markers_are_understood() -> None:
    """Goal: golden; commits and aborts of a transactional topic; method: count both kinds."""
    data = kafka_files("node1")["txn-0/00000000000000000000.log"]
    markers = [
        read_end_txn_marker(data, position)
        for position, header in iter_headers(data)
        if header.is_control
    ]
    assert sum(marker == EndTxnMarker(False, 0) for marker in markers) == 2
    assert sum(marker == EndTxnMarker(True, 0) for marker in markers) == len(markers) - 2


def test_a_marker_reads_back() -> None:
    """Goal: markers we write carry producer, kind and coordinator epoch."""
    batch = build_end_txn_marker(EndTxnMarker(False, 12), 7, 3, 1_000)
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, -1)
    assert header.is_control and header.is_transactional
    assert read_end_txn_marker(batch) == EndTxnMarker(False, 12)


def test_other_control_records_are_no_markers() -> None:
    """Goal: a quorum's control batch is not mistaken for the end of a transaction."""
    batch = build_control_batch(ControlType.KRAFT_VERSION, kraft_version_value(1), 1_000)
    assert read_end_txn_marker(batch) is None
    assert read_control_records(batch)[0].value == b"\x00\x00\x00\x01\x00"


def test_a_control_record_without_a_type_is_refused() -> None:
    """Goal: a key that is too short is a peer fault."""
    batch = build_batch([Record(0, b"\x00", b"")], is_control=True)
    with pytest.raises(CorruptBatch):
        read_control_records(batch)

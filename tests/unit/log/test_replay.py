"""Rebuilding producers: which snapshot is taken and what is replayed after it."""

from tests.fixtures import KAFKA_WALL_MS, kafka_disk
from tidelog.config import LogConfig
from tidelog.env.trace import Trace, TraceList
from tidelog.log.pieces import finish
from tidelog.log.producer_snapshots import ProducerSnapshots
from tidelog.log.producer_state import ProducerStates
from tidelog.log.replay import rebuild_producers
from tidelog.log.segment import Segment

END = 1445


def _snapshot_of_kafka() -> bytes:
    disk = kafka_disk("node1")
    return ProducerSnapshots(disk, "txn-1").read(END)


def _rebuild(snapshots: set[int], *, bases: tuple[int, ...] = ()) -> tuple[bytes, Segment]:
    disk = kafka_disk("node1")
    segment = Segment(disk, "txn-1", 0, LogConfig())
    if bases:
        segment.txn_index.reset()
    states = ProducerStates()
    finish(
        rebuild_producers(
            states,
            Trace(TraceList()),
            [segment],
            ProducerSnapshots(disk, "txn-1", snapshots),
            log_start_offset=0,
            log_end_offset=END,
            rebuilt_bases=bases,
            wall_ms=KAFKA_WALL_MS,
        )
    )
    states.check(END)
    return states.encode_snapshot(), segment


def test_replaying_a_log_gives_kafkas_own_snapshot() -> None:
    """Goal: golden; the state after 1445 offsets with transactions equals what Kafka wrote."""
    expected = _snapshot_of_kafka()
    assert _rebuild(set())[0] == expected
    assert _rebuild({END})[0] == expected


def test_a_rebuilt_segment_gets_its_aborted_transactions_back() -> None:
    """Goal: golden; the transaction index made from markers equals Kafka's, and the snapshot at
    the end is not used, since replay must pass the markers."""
    snapshot, segment = _rebuild({END}, bases=(0,))
    assert snapshot == _snapshot_of_kafka()
    file = segment.txn_index.file
    assert file is not None
    assert file.read(0, 999) == kafka_disk("node1").read_file(f"txn-1/{0:020d}.txnindex")

"""Rebuilding producers: which snapshot is taken and what is replayed after it."""

import pytest

from tests.fixtures import KAFKA_WALL_MS, kafka_disk
from tests.unit.log.harness import PARTITION, WALL_MS, LogBench, batch
from tests.unit.log.producers_bench import ProducersBench
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


@pytest.mark.parametrize("way", ["kill", "truncation"])
def test_a_batch_that_was_deleted_is_still_known_as_a_duplicate(way: str) -> None:
    """Goal: DeleteRecords leaves the batches of the first segment in their file. Their producer may
    repeat them, since it has no answer yet; a replica that dies or is cut appends none twice."""
    bench = LogBench()
    sent = [batch(producer_id=9, producer_epoch=0, sequence=index) for index in range(3)]
    for each in sent:
        bench.log.append_as_leader(each, 0, WALL_MS)
    bench.log.request_flush()
    bench.settle()
    bench.log.update_high_watermark(3)
    bench.log.maybe_raise_log_start_offset(3)
    bench.directory.checkpoint_log_start_offsets()
    bench.settle()
    if way == "kill":
        bench.reopen_after_kill()
    else:
        bench.log.append_as_leader(batch(producer_id=8, producer_epoch=0, sequence=0), 0, WALL_MS)
        bench.log.truncate_to(3)
    log = bench.directory.logs[PARTITION]
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)
    for offset, each in enumerate(sent):
        again = log.append_as_leader(each, 1, WALL_MS)
        assert (again.duplicate, again.first_offset) == (True, offset)


@pytest.mark.parametrize("seed", range(40))
def test_producers_over_any_order_of_events(seed: int) -> None:
    """Goal: repetitions, transactions and epochs over elections, cuts, deletions, expiry and ends
    of processes and machines, against what the logs have: no batch is twice in a log, none is
    refused that follows, and readers of decided transactions see what was committed."""
    ProducersBench(seed).run(100)

"""Producer snapshots: Kafka's own files, and damaged ones."""

import pytest

from tests.fixtures import kafka_files
from tests.unit.log.harness import WALL_MS, LogBench, Producer, batch
from tidelog.errors import ErrorCode
from tidelog.log.producer_snapshots import SnapshotDamaged, decode_snapshot, encode_snapshot
from tidelog.log.producer_state import ProducerStates

DAY_MS = 86_400_000


@pytest.mark.parametrize("node", ["node1", "node2", "node3"])
def test_kafkas_snapshots_write_back(node: str) -> None:
    """Goal: golden; every snapshot of the recording, bit for bit, order included."""
    snapshots = [data for path, data in kafka_files(node).items() if path.endswith(".snapshot")]
    assert any(len(decode_snapshot(data)) > 2 for data in snapshots)
    for data in snapshots:
        assert encode_snapshot(decode_snapshot(data)) == data


def test_java_order_goes_by_bucket() -> None:
    """Goal: entries are written in the order of Java's hash map, which grows with them."""
    states = ProducerStates()
    for producer_id in (33, 17, 16, 2, 1 << 33):
        Producer(states, producer_id).send(0, 0)
    order = [entry.producer_id for entry in decode_snapshot(states.encode_snapshot())]
    assert order == [16, 33, 17, 2, 1 << 33]


def test_a_snapshot_keeps_the_last_batch_and_open_transactions() -> None:
    """Goal: after loading the last batch is a duplicate, older ones are not; the stable offset
    is held."""
    states = ProducerStates()
    producer = Producer(states)
    producer.send(0, 0)
    producer.send(0, 1, transactional=True)
    loaded = ProducerStates()
    loaded.load_snapshot(states.encode_snapshot(), 2)
    again = Producer(loaded)
    assert again.send(0, 1, transactional=True) == 1
    assert again.send(0, 0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert loaded.first_unstable_offset == 1
    loaded.check(2)


def test_damaged_snapshots_are_refused() -> None:
    """Goal: length, version and checksum are checked."""
    good = kafka_files("node1")[f"plain-0/{218:020d}.snapshot"]
    for data in (b"", good[:-1], b"\x00\x02" + good[2:], good[:20] + b"\xff" + good[21:]):
        with pytest.raises(SnapshotDamaged):
            decode_snapshot(data)


@pytest.mark.parametrize("kills", [1, 2])
def test_a_producer_whose_records_were_deleted_outlives_a_kill_and_a_power_cut(kills: int) -> None:
    """Only a snapshot knows of it. The process died before a flush took that along; the next ones
    found it sound, in the page cache, and a clean stop did not make it durable."""
    bench = LogBench()
    records = batch(producer_id=9, producer_epoch=3, sequence=0)
    bench.log.append_as_leader(records, 0, WALL_MS)
    bench.log.update_high_watermark(1)
    bench.roll()
    bench.log.maybe_raise_log_start_offset(1)
    bench.effects.take()
    bench.directory.checkpoint_log_start_offsets()
    bench.settle()
    for _ in range(kills):
        bench.reopen_after_kill()
        bench.settle()
    bench.stop()
    assert bench.reopen_after_power_cut().producers.by_id[9].producer_epoch == 3


def test_a_producer_whose_records_were_deleted_outlives_a_kill() -> None:
    """The log began in the middle of a segment, and a start did not look at what is before."""
    bench = LogBench()
    for producer_id in (8, 9):
        records = batch(producer_id=producer_id, producer_epoch=3, sequence=0)
        bench.log.append_as_leader(records, 0, WALL_MS)
        bench.roll()
    for _ in range(2):
        records = batch(producer_id=7, producer_epoch=3, sequence=bench.log.log_end_offset - 2)
        bench.log.append_as_leader(records, 0, WALL_MS)
    bench.log.update_high_watermark(4)
    bench.log.maybe_raise_log_start_offset(3)
    bench.directory.checkpoint_log_start_offsets()
    bench.settle()
    assert sorted(bench.reopen_after_kill().producers.by_id) == [7, 8, 9]

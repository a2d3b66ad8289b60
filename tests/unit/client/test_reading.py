"""Goal: every record below the end, once and in order, whatever leaders do meanwhile."""

import pytest

from tests.unit.client.scripted_brokers import ScriptedCluster, ScriptedPartition
from tidelog.client.blocking import Brokers
from tidelog.client.reading import OutOfRange, Reader
from tidelog.errors import CorruptBatch, ErrorCode
from tidelog.model import TopicPartition
from tidelog.records.batch import build_batch, stamp
from tidelog.records.control import EndTxnMarker, build_end_txn_marker
from tidelog.records.record import Record

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def batch(base, *values, **more):
    records = [Record(1000, None, value.encode()) for value in values]
    return build_batch(records, base_offset=base, **more)


def marker(base, producer_id, *, is_commit):
    return stamp(build_end_txn_marker(EndTxnMarker(is_commit, 0), producer_id, 0, 1000), base, 0)


def partition(*batches, **more):
    return ScriptedPartition(list(batches), **more)


@pytest.fixture
def reader_of():
    opened = []

    def make(partitions, positions, **more):
        cluster = ScriptedCluster(partitions)
        brokers = Brokers(cluster.addresses, client_id="test", timeout_s=2.0)
        opened.extend((cluster, brokers))
        cluster.__enter__()
        return Reader(brokers, positions, **more)

    yield make
    for each in opened:
        each.close() if isinstance(each, Brokers) else each.__exit__()


def read(reader, count):
    """So many records, as (partition, offset, value)."""
    found = []
    while len(found) < count:
        found += [
            (tp.partition, record.offset, record.value.decode()) for tp, record in reader.poll(10)
        ]
    return found


def test_partitions_of_several_leaders(reader_of):
    partitions = {
        P0: partition(batch(0, "a", "b"), batch(2, "c")),
        P1: partition(batch(5, "d"), leader=2, log_start=5),
    }
    reader = reader_of(partitions, {P0: 1, P1: 5})
    assert read(reader, 3) == [(0, 1, "b"), (0, 2, "c"), (1, 5, "d")]
    assert reader.positions == {P0: 3, P1: 6}
    assert reader.poll(1) == []


def test_a_leader_that_moves(reader_of):
    state = partition(batch(0, "a"), batch(1, "b"), max_batches_per_fetch=1)
    other = partition(batch(0, "x"), leader=2)

    def move(node, offset):
        if offset == 1 and node == 1:
            state.leader = 2
            return "close"
        return None

    state.on_fetch = move
    reader = reader_of({P0: state, P1: other}, {P0: 0, P1: 0})
    assert sorted(read(reader, 3)) == [(0, 0, "a"), (0, 1, "b"), (1, 0, "x")]


def test_only_what_is_committed(reader_of):
    state = partition(
        batch(
            0, "aborted", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True
        ),
        batch(1, "plain"),
        marker(2, 7, is_commit=False),
        batch(3, "good", producer_id=7, producer_epoch=0, base_sequence=1, is_transactional=True),
        marker(4, 7, is_commit=True),
        batch(5, "open", producer_id=7, producer_epoch=0, base_sequence=2, is_transactional=True),
        aborted=[(7, 0)],
        last_stable_offset=5,
    )
    reader = reader_of({P0: state}, {P0: 0}, read_committed=True)
    assert [value for _, _, value in read(reader, 2)] == ["plain", "good"]
    assert reader.positions == {P0: 5}
    uncommitted = reader_of({P0: state}, {P0: 0})
    assert len(read(uncommitted, 4)) == 4


def test_what_is_not_there(reader_of):
    reader = reader_of({P0: partition(batch(5, "a"), log_start=5)}, {P0: 0})
    with pytest.raises(OutOfRange, match="offset `0` of `orders-0` is not there"):
        reader.poll(1)


def test_damage_is_refused(reader_of):
    damaged = bytearray(batch(0, "a"))
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch):
        reader_of({P0: partition(bytes(damaged))}, {P0: 0}).poll(1)


def test_a_refusal_that_stays(reader_of):
    from tidelog.client import AdminError

    state = partition(batch(0, "a"))
    state.on_fetch = lambda node, offset: ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(AdminError, match="TOPIC_AUTHORIZATION_FAILED"):
        reader_of({P0: state}, {P0: 0}).poll(1)

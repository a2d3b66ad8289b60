"""A transaction begins with the guard of its question, and with the first of its batches."""

import pytest

from tests.unit.log.harness import WALL_MS, LogBench, batch
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.log.producer_verification import Guards
from tidelog.log.values import AppendOrigin
from tidelog.records.batch import iter_headers
from tidelog.records.control import EndTxnMarker, build_end_txn_marker

PRODUCER = 9


def data(sequence, epoch=0):
    return batch(
        1, producer_id=PRODUCER, producer_epoch=epoch, sequence=sequence, transactional=True
    )


def begin(bench, sequence, epoch=0, *, bumps_epoch=False):
    return bench.log.producers.guards.begin(
        PRODUCER, epoch, sequence, bumps_epoch=bumps_epoch, wall_ms=WALL_MS
    )


def end(bench, epoch=0, *, bumps_epoch=False, coordinator_epoch=0, is_commit=True):
    marker = EndTxnMarker(is_commit, coordinator_epoch)
    bench.log.append_as_leader(
        build_end_txn_marker(marker, PRODUCER, epoch, WALL_MS),
        0,
        WALL_MS,
        origin=AppendOrigin.COORDINATOR,
        bumps_epoch=bumps_epoch,
    )


def refused(bench, sequence, epoch=0):
    with pytest.raises(ProtocolError) as caught:
        bench.log.append_as_leader(data(sequence, epoch), 0, WALL_MS)
    return caught.value.code


@pytest.mark.parametrize("what", ["a batch", "a marker"])
def test_a_guard_ends_with_the_transaction_in_the_log(what):
    bench = LogBench()
    guard, guards = begin(bench, 0), bench.log.producers.guards
    assert begin(bench, 1) is guard and guards.is_current(PRODUCER, guard)
    if what == "a batch":
        bench.log.append_as_leader(data(0), 0, WALL_MS)
    else:
        end(bench)
    assert not guards.is_current(PRODUCER, guard)
    assert begin(bench, 1) is not guard


def test_the_first_of_the_batches_in_flight_comes_first():
    """Taken as the beginning, the second would make the first out of order for ever (R26)."""
    bench = LogBench()
    begin(bench, 3)
    begin(bench, 4)
    assert refused(bench, 4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    bench.log.append_as_leader(data(3), 0, WALL_MS)
    bench.log.append_as_leader(data(4), 0, WALL_MS)
    assert bench.log.log_end_offset == 2


def test_the_first_of_the_batches_in_flight_may_have_the_last_sequence_of_all():
    """0 follows 2**31 - 1, and does not come before it."""
    top = 2**31 - 1
    for sequences in ((top, 0), (0, top)):
        bench = LogBench()
        for sequence in sequences:
            begin(bench, sequence)
        assert refused(bench, 0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        bench.log.append_as_leader(data(top), 0, WALL_MS)
        bench.log.append_as_leader(data(0), 0, WALL_MS)
        assert bench.log.log_end_offset == 2


def test_with_an_epoch_for_each_transaction_it_begins_with_sequence_0():
    bench = LogBench()
    begin(bench, 1, bumps_epoch=True)
    assert refused(bench, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    begin(bench, 0, bumps_epoch=True)
    bench.log.append_as_leader(data(0), 0, WALL_MS)


def test_a_newer_epoch_begins_anew():
    bench = LogBench()
    begin(bench, 0)
    begin(bench, 7, epoch=1)
    bench.log.append_as_leader(data(7, epoch=1), 0, WALL_MS)


def test_a_late_marker_of_the_last_transaction_does_not_end_the_next():
    """The marker of transaction n has the epoch of transaction n + 1 (KIP-890, R29)."""
    bench = LogBench()
    bench.log.append_as_leader(data(0, epoch=4), 0, WALL_MS)
    end(bench, epoch=5, bumps_epoch=True)
    end(bench, epoch=5, bumps_epoch=True)
    bench.log.append_as_leader(data(0, epoch=5), 0, WALL_MS)
    with pytest.raises(ProtocolError) as caught:
        end(bench, epoch=5, bumps_epoch=True)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert bench.log.producers.has_open_transaction(PRODUCER, 5)
    end(bench, epoch=6, bumps_epoch=True)
    assert not bench.log.producers.has_open_transaction(PRODUCER, 5)


def test_guards_expire_and_open_transactions_do_not():
    bench = LogBench()
    producers = bench.log.producers
    bench.log.append_as_leader(data(0), 0, WALL_MS)
    other = producers.guards.begin(10, 0, 0, bumps_epoch=False, wall_ms=WALL_MS)
    for _ in range(3):
        producers.expire(WALL_MS + 10_000, 1000)
    assert producers.has_open_transaction(PRODUCER, 0)
    assert not producers.guards.is_current(10, other)


@pytest.mark.parametrize(
    ("bumps_epoch", "marker_epoch", "is_forgotten"),
    [(False, 3, True), (False, 4, True), (True, 3, False), (True, 2, False), (True, 4, True)],
)
def test_the_marker_of_the_transaction_before_ends_no_question(
    bumps_epoch, marker_epoch, is_forgotten
):
    """Version 2: the next transaction is asked about while the marker of the last one is on its
    way. It has the epoch of the next one; the marker of that one has a higher epoch."""
    guards = Guards()
    guard = guards.begin(7, 3, 0, bumps_epoch=bumps_epoch, wall_ms=0)
    marker = build_end_txn_marker(EndTxnMarker(True, 1), 7, marker_epoch, 0)
    ((_, header),) = iter_headers(marker)
    guards.on_batch(header)
    assert guards.is_current(7, guard) != is_forgotten

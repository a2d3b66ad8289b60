"""Goal: an outcome is never taken back, also when another node coordinates next.

Method: leaders that follow each other over one log in memory, with and without what was not
committed yet.
"""

import pytest

from tests.unit.rsm.coordinator_rig import WALL_MS
from tests.unit.transactions.orders import Order
from tests.unit.transactions.rig import ID, T0, T1, TIMEOUT_MS, Rig, add, end, init, verify
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.rsm.coordinator import Refused
from tidelog.transactions.events import FenceReason, TransactionFenced
from tidelog.transactions.messages import (
    DescribeTransaction,
    Description,
    PartitionsResult,
    ProducerGranted,
)
from tidelog.transactions.records import TransactionState

VERSIONS = pytest.mark.parametrize("version", [0, 2])
AGAIN = ProducerGranted(ErrorCode.CONCURRENT_TRANSACTIONS)
NONE = PartitionsResult(ErrorCode.NONE)


@VERSIONS
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_from_its_beginning_to_its_end(version, commit):
    rig = Rig(version=version)
    producer = rig.ongoing(version=version)
    granted = rig.ask(end(producer, commit=commit, version=version))
    assert granted.error_code is ErrorCode.NONE
    assert granted.producer_epoch == producer.producer_epoch + version // 2
    ((marker, partitions),) = rig.take_markers()
    assert partitions == (T0, T1)
    assert marker == (ID, *granted[1:], commit, version, rig.log.epoch)
    rig.write(marker, T1)
    assert rig.known().state.is_prepared
    rig.write(marker, T0)
    rig.commit()
    name = "COMPLETE_COMMIT" if commit else "COMPLETE_ABORT"
    assert rig.known().state is TransactionState[name]
    # The next one of the same producer.
    assert rig.ask(add(granted, T0, version=version)) == NONE


def test_nothing_is_answered_before_it_is_committed():
    rig = Rig()
    number = rig.send(init())
    assert number not in rig.answers and len(rig.coordinator.entries) == 0
    rig.commit()
    producer = rig.answers[number]
    assert isinstance(producer, ProducerGranted)
    waiting = [rig.send(add(producer, T0)), rig.send(add(producer, T0)), rig.send(end(producer))]
    # A refusal that rests on what is not committed waits as well; to come again does not.
    fenced = rig.send(verify(producer, T1))
    again = rig.send(add(producer._replace(producer_epoch=1), T1))
    assert rig.answers[again] == PartitionsResult(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert not rig.answers.keys() & {fenced, *waiting} and not rig.wanted
    rig.commit()
    assert [rig.answers[each].error_code for each in waiting] == [ErrorCode.NONE] * 3
    assert rig.answers[fenced] == PartitionsResult(ErrorCode.PRODUCER_FENCED)
    assert len(rig.take_markers()) == 1


def test_a_producer_that_begins_while_a_change_is_not_committed_comes_again():
    """R31: below the min ISR each try would use up an epoch, and a record."""
    rig = Rig()
    producer = rig.begin()
    first = rig.send(init())
    end_offset = rig.partition.end_offset
    for _ in range(20):
        assert rig.answers[rig.send(init())] == AGAIN
    assert rig.partition.end_offset == end_offset
    rig.commit()
    assert rig.answers[first] == producer._replace(producer_epoch=1)


def test_a_new_producer_ends_the_transaction_of_the_one_before():
    rig = Rig()
    old = rig.ongoing()
    assert rig.ask(init()) == AGAIN
    assert rig.ask(init()) == AGAIN
    assert rig.ask(end(old)).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    (marker,) = rig.write_all()
    assert (marker.is_commit, marker.producer_epoch) == (False, 1)
    new = rig.begin()
    assert new.producer_epoch == 2
    for request in (add(old, T0), verify(old, T0), end(old, version=0)):
        assert rig.ask(request).error_code is ErrorCode.PRODUCER_FENCED
    (event,) = [each for each in rig.trace.events if isinstance(each, TransactionFenced)]
    assert event.reason is FenceReason.NEW_PRODUCER


@VERSIONS
def test_a_transaction_that_is_open_for_too_long_is_aborted(version):
    rig = Rig(version=version)
    old = rig.ongoing(version=version)
    rig.advance(TIMEOUT_MS - 1)
    assert rig.known().state is TransactionState.ONGOING
    rig.advance(1)
    (marker,) = rig.write_all()
    assert (marker.is_commit, marker.producer_epoch) == (False, 1)
    assert rig.known().state is TransactionState.COMPLETE_ABORT
    expected = ErrorCode.INVALID_TXN_STATE if version else ErrorCode.PRODUCER_FENCED
    assert rig.ask(end(old, version=version)).error_code is expected
    assert rig.begin().producer_epoch == 2


def test_the_time_out_is_that_of_the_transaction_and_not_of_its_last_partition():
    rig = Rig()
    producer = rig.ongoing(T0)
    rig.advance(TIMEOUT_MS - 1)
    rig.ask(add(producer, T1))
    rig.advance(1)
    assert rig.known().state is TransactionState.PREPARE_ABORT
    # A transaction that ended in time leaves nothing that aborts the next one.
    rig = Rig()
    producer = rig.ask(end(rig.ongoing()))
    rig.write_all()
    rig.advance(TIMEOUT_MS - 1)
    rig.ask(add(producer, T0))
    rig.advance(TIMEOUT_MS - 1)
    assert rig.known().state is TransactionState.ONGOING


@pytest.mark.parametrize("timeout_ms", [0, -1, 901_000])
def test_time_outs_that_are_not_allowed(timeout_ms):
    rig = Rig()
    answer = rig.ask(init(timeout_ms=timeout_ms))
    assert answer == ProducerGranted(ErrorCode.INVALID_TRANSACTION_TIMEOUT)


def test_a_verification_finds_what_was_added():
    rig = Rig()
    producer = rig.ongoing(T0)
    assert rig.ask(verify(producer, T0)) == NONE
    assert rig.ask(verify(producer, T0, T1)) == PartitionsResult(ErrorCode.NONE, frozenset((T1,)))
    other = producer._replace(producer_id=8)
    assert rig.ask(verify(other, T0)).error_code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    number = rig.send(add(producer, T1))
    asked = rig.send(verify(producer, T1))
    assert asked not in rig.answers
    rig.commit()
    assert rig.answers[number] == rig.answers[asked] == NONE
    rig.ask(end(producer))
    present = producer._replace(producer_epoch=1)
    assert rig.ask(verify(present, T0)).error_code is ErrorCode.CONCURRENT_TRANSACTIONS


def test_an_administrator_sees_which_markers_are_missing():
    rig = Rig()
    assert rig.ask(DescribeTransaction(ID)) == Description(None)
    producer = rig.ongoing()
    assert rig.ask(DescribeTransaction(ID)).transaction.partitions == {T0, T1}
    rig.ask(end(producer))
    ((marker, _),) = rig.take_markers()
    rig.write(marker, T0)
    assert rig.ask(DescribeTransaction(ID)).transaction.partitions == {T1}


@VERSIONS
def test_a_new_coordinator_takes_over_in_each_state(version):
    """I25: nothing hangs, and nothing both commits and aborts."""
    rig = Rig(version=version)
    producer = rig.begin()
    rig = Rig(rig.partition, version=version)
    assert rig.known().state is TransactionState.EMPTY and not rig.wanted
    assert rig.ask(add(producer, T0, T1, version=version)) == NONE
    # R32: it knows all partitions of an open transaction.
    rig = Rig(rig.partition, version=version, now=10)
    assert rig.known().partitions == {T0, T1} and not rig.wanted
    granted = rig.ask(end(producer, version=version))
    ((before, _),) = rig.take_markers()
    rig.write(before, T0)
    # Markers are half written, and all of them are written again.
    rig = Rig(rig.partition, version=version, now=20)
    ((marker, partitions),) = rig.take_markers()
    assert partitions == (T0, T1)
    assert marker == before._replace(coordinator_epoch=before.coordinator_epoch + 1)
    # Those of the former coordinator do not count here.
    rig.write(before, T1)
    rig.write(marker, T0)
    assert rig.known().state is TransactionState.PREPARE_COMMIT
    rig.write(marker, T1)
    rig.commit()
    rig = Rig(rig.partition, version=version, now=30)
    assert rig.known().state is TransactionState.COMPLETE_COMMIT and not rig.wanted
    assert rig.ask(end(producer, version=version)) == granted


def test_an_open_transaction_times_out_with_the_next_coordinator():
    rig = Rig()
    rig.ongoing()
    rig = Rig(rig.partition, now=400)
    rig.advance(TIMEOUT_MS - 401)
    assert rig.known().state is TransactionState.ONGOING
    rig.advance(1)
    assert rig.known().state is TransactionState.PREPARE_ABORT
    # One that was due before there was a coordinator is aborted at once.
    rig = Rig()
    rig.ongoing()
    rig = Rig(rig.partition, now=5000)
    rig.advance(0)
    assert rig.known().state is TransactionState.PREPARE_ABORT


def test_a_clock_that_was_ahead_keeps_no_transaction_open_for_longer():
    """Its beginning is noted an hour from now: for the coordinator itself, and for the next one."""
    for is_next in (False, True):
        rig = Rig()
        rig.coordinator.wall_offset_ms = WALL_MS + 3_600_000
        rig.ongoing()
        rig.coordinator.wall_offset_ms = WALL_MS
        if is_next:
            rig = Rig(rig.partition, now=400)
        rig.advance(TIMEOUT_MS - 1)
        assert rig.known().state is TransactionState.ONGOING
        rig.advance(1)
        assert rig.known().state is TransactionState.PREPARE_ABORT


def test_what_was_not_committed_is_as_if_it_had_not_been():
    rig = Rig()
    producer = rig.ongoing()
    number = rig.send(end(producer))
    rig.coordinator.resign()
    rig._settle()
    assert rig.answers[number] == Refused(ErrorCode.NOT_COORDINATOR)
    rig = Rig(rig.partition)
    assert rig.known().state is TransactionState.ONGOING
    # The client may decide otherwise now.
    assert rig.ask(end(producer, commit=False)).error_code is ErrorCode.NONE
    assert [each.is_commit for each in rig.write_all()] == [False]


def test_a_deposed_coordinator_decides_nothing():
    old = Rig()
    producer = old.ongoing()
    new = Rig(old.partition)
    assert old.answers[old.send(end(producer))] == Refused(ErrorCode.NOT_COORDINATOR)
    assert old.coordinator.is_deposed
    assert new.ask(end(producer)).error_code is ErrorCode.NONE
    # Nor do its markers count.
    assert not old.wanted and len(new.wanted) == 1


def test_more_than_may_wait_is_refused(monkeypatch):
    rig = Rig()
    producer = rig.begin()
    monkeypatch.setattr(rig.coordinator._kernel, "_max_pending", 2)
    for partition in (T0, T1):
        rig.send(add(producer, partition))
    for request in (add(producer, T0), end(producer), init("y")):
        answer = rig.answers[rig.send(request)]
        assert answer == Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def test_a_transaction_whose_end_is_refused_still_times_out(monkeypatch):
    """Its client may not come again."""
    rig = Rig()
    producer = rig.ongoing(T0)
    monkeypatch.setattr(rig.coordinator._kernel, "_max_pending", 1)
    rig.send(init("y"))
    refused = rig.answers[rig.send(end(producer))]
    assert refused == Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    rig.commit()
    assert rig.known().state is TransactionState.ONGOING
    rig.advance(TIMEOUT_MS)
    assert rig.known().state is TransactionState.PREPARE_ABORT


def test_what_is_too_large_for_the_log_is_refused():
    rig = Rig()
    producer = rig.begin()
    rig.partition.max_batch_bytes = 10
    answer = rig.answers[rig.send(add(producer, T0))]
    assert answer == Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert rig.known().state is TransactionState.EMPTY


@pytest.mark.parametrize("seed", range(30))
def test_clients_that_repeat_and_coordinators_that_die(seed):
    """One producer after the other; each transaction ends once, as its client was answered."""
    prng = Prng(seed)
    version = 2 if seed % 3 else 0
    rig = Rig(version=version)
    producer = None
    outcomes: dict[tuple[int, int], set[bool]] = {}
    answered: dict[tuple[int, int], bool] = {}

    def note() -> None:
        for marker, partitions in rig.take_markers():
            # OneOutcome: all markers of a transaction agree, and so do all of one epoch.
            prepared = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
            assert rig.known().state is prepared[not marker.is_commit]
            found = outcomes.setdefault((marker.producer_id, marker.producer_epoch), set())
            found.add(marker.is_commit)
            for each in partitions:
                if prng.chance(3, 4):
                    rig.write(marker, each)
                else:
                    late.append((marker, each))

    late: list = []
    for _ in range(150):
        choice = prng.below(8)
        if choice == 0:
            rig = Rig(rig.partition, version=version, now=rig.now)
            note()
        elif choice == 1:
            rig.advance(prng.below(TIMEOUT_MS))
        elif choice == 2 and late:
            marker, each = late.pop(prng.below(len(late)))
            rig.write(marker, each)
        elif producer is None or choice == 3:
            answer = rig.ask(init())
            producer = answer if answer.error_code is ErrorCode.NONE else None
        elif choice < 6:
            rig.ask(add(producer, T0 if prng.chance(1, 2) else T1, version=version))
        else:
            commit = prng.chance(1, 2)
            answer = rig.ask(end(producer, commit=commit, version=version))
            if answer.error_code is ErrorCode.NONE and version:
                answered[answer[1:]] = commit
                producer = answer
        rig.commit()
        note()
    assert not version or all(len(each) == 1 for each in outcomes.values()), outcomes
    assert all(outcomes.get(key, {commit}) == {commit} for key, commit in answered.items())
    # EveryTransactionEnds
    for _ in range(3):
        rig.advance(TIMEOUT_MS)
        rig = Rig(rig.partition, version=version, now=rig.now)
        rig.write_all()
    assert all(each.state.is_idle for _, each in rig.coordinator.entries.items())


@pytest.mark.parametrize("seed", range(40))
def test_what_was_promised_comes_true_in_any_order(seed):
    order = Order(seed)
    for _ in range(60):
        order.step()
    order.finish()

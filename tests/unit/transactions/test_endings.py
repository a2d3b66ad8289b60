"""Goal: a transaction is complete when all its partitions have the marker, and not before."""

import pytest

from tests.unit.transactions.rig import ID, T0, T1, Rig, add, end
from tidelog.errors import ErrorCode
from tidelog.transactions.events import MarkerRefused
from tidelog.transactions.records import TransactionState


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED]
)
def test_a_partition_that_knows_something_newer_is_done(code):
    rig = Rig()
    rig.ask(end(rig.ongoing()))
    ((marker, _),) = rig.take_markers()
    rig.write(marker, T0, refusal=code)
    rig.write(marker, T1)
    rig.commit()
    assert rig.known().state is TransactionState.COMPLETE_COMMIT
    (event,) = [each for each in rig.trace.events if isinstance(each, MarkerRefused)]
    assert (event.partition, event.reason) == (str(T0), code.name)


def test_an_abort_without_partitions_is_complete_at_once():
    """R30: and the epoch of its producer goes on, without fencing it."""
    rig = Rig()
    producer = rig.begin()
    granted = rig.ask(end(producer, commit=False))
    rig.commit()
    assert rig.known().state is TransactionState.COMPLETE_ABORT and not rig.wanted
    assert granted.producer_epoch == producer.producer_epoch + 1
    assert rig.ask(end(granted, commit=False)).error_code is ErrorCode.NONE


def test_late_and_repeated_confirmations_change_nothing():
    rig = Rig()
    producer = rig.ask(end(rig.ongoing()))
    ((marker, _),) = rig.take_markers()
    for partition in (T0, T0, T1):
        rig.write(marker, partition)
    assert not rig.coordinator.wants(marker)
    rig.write(marker, T1)
    rig.commit()
    # Nor do they end the next transaction.
    rig.ask(add(producer, T0))
    rig.ask(end(producer, commit=False))
    rig.write(marker, T0)
    assert rig.known().state is TransactionState.PREPARE_ABORT


def test_no_marker_is_wanted_for_an_outcome_that_may_be_taken_back():
    rig = Rig()
    producer = rig.ongoing()
    rig.send(end(producer))
    assert not rig.wanted
    with pytest.raises(AssertionError, match="DecidedBeforeMarked"):
        prepared = rig.coordinator._kernel.latest.get(ID)
        assert prepared is not None
        rig.coordinator._endings.begin(ID, prepared, rig.now)


def test_the_check_can_fail():
    rig = Rig()
    rig.ask(end(rig.ongoing()))
    rig.coordinator._endings.clear()
    with pytest.raises(AssertionError, match="EveryTransactionEnds"):
        rig.coordinator.check()

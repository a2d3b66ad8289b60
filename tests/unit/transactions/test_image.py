"""Goal: the image is what the records say, and an earlier image stays what it was."""

import pytest

from tidelog.transactions.image import TransactionsImage, TransactionsMachine
from tidelog.transactions.records import Transaction, TransactionRecord

FIRST = Transaction(producer_id=1, producer_epoch=0, timeout_ms=10)
SECOND = Transaction(producer_id=1, producer_epoch=1, timeout_ms=10)


def test_ids_come_change_and_go():
    machine, before = TransactionsMachine(), TransactionsImage()
    one = machine.replay(before, [TransactionRecord("x", FIRST), None], 1, 0)
    two = machine.replay(one, [TransactionRecord("x", SECOND), TransactionRecord("y", FIRST)], 3, 0)
    gone = machine.replay(two, [TransactionRecord("x", None)], 4, 0)
    assert [each.get("x") for each in (before, one, two, gone)] == [None, FIRST, SECOND, None]
    assert gone.get("y") is two.get("y")
    assert machine.replay(gone, [None], 5, 0) is gone


@pytest.mark.parametrize("version", [0, 1])
def test_values_are_written_in_the_version_that_the_cluster_allows(version):
    machine = TransactionsMachine()
    machine.value_version = version
    record = TransactionRecord("x", FIRST)
    key, value = machine.encode(record)
    assert value is not None and value[:2] == bytes((0, version))
    assert machine.decode((key, value)) == record

"""EndTxn: the outcome is answered when it is committed, and reaches all partitions."""

import pytest

from tests.unit.broker.api.transaction_client import add, begin, end, one_node
from tests.unit.broker.api.wire_turns import versions
from tidelog.errors import ErrorCode
from tidelog.transactions.records import TransactionState
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

VERSIONS = versions(ApiKey.END_TXN)


def state(node):
    ((_, found),) = node.broker.transactions.list_transactions() or ()
    return found.state


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_ends_in_all_its_partitions(version, commit):
    node = one_node()
    wire = node.client()
    producer = begin(wire)
    add(wire, 3, producer, t=[0, 1])
    answer = end(wire, version, producer, commit=commit)
    assert error_of(answer.error_code) is ErrorCode.NONE
    if version >= 5:
        assert (answer.producer_id, answer.producer_epoch) == (producer.producer_id, 1)
    complete = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
    node.run_until(lambda: state(node) is complete)
    # A repetition, and the same with another outcome.
    assert error_of(end(wire, version, producer, commit=commit).error_code) is ErrorCode.NONE
    other = end(wire, version, producer, commit=not commit)
    assert error_of(other.error_code) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("version", VERSIONS)
def test_who_may_not_end_it(version):
    wire = one_node().client()
    producer = begin(wire)
    add(wire, 3, producer, t=[0])
    fenced = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    for other, code in (
        (producer._replace(producer_epoch=9), fenced),
        (producer._replace(producer_id=9999), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (producer._replace(transactional_id="zz"), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (producer._replace(transactional_id=""), ErrorCode.INVALID_REQUEST),
    ):
        assert error_of(end(wire, version, other).error_code) is code

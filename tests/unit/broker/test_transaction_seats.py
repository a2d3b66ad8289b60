"""Goal: transactions outlive their coordinator, and values have the version of the cluster."""

from tests.unit.broker.api.transaction_client import SETTINGS, add, begin, end, one_node
from tests.unit.broker.one_node import OneNode
from tidelog.errors import ErrorCode
from tidelog.model import TRANSACTIONS_TOPIC, TopicPartition
from tidelog.transactions.records import TransactionState
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, millis

ONE_PARTITION = {"transaction_state_log_num_partitions": "1"}


def restarted(node, **settings):
    """The node after a kill, on the same disk."""
    again = OneNode(disk=node.disk, reaches_itself=True, **{**SETTINGS, **settings})
    again.run_until(lambda: again.broker.transactions.coordinators() is not None)
    return again


def known(node, name="x"):
    found = dict(node.broker.transactions.list_transactions() or ())
    return found[name]


def test_an_open_transaction_is_there_after_a_restart():
    node = one_node()
    producer = begin(node.client())
    add(node.client(), 3, producer, t=[0, 1])
    node = restarted(node)
    wire = node.client()
    assert known(node).state is TransactionState.ONGOING
    assert error_of(end(wire, 3, producer).error_code) is ErrorCode.NONE
    node.run_until(lambda: known(node).state is TransactionState.COMPLETE_COMMIT)


def test_an_abandoned_transaction_is_aborted():
    """I26: it keeps readers of committed data waiting no longer than its timeout."""
    node = one_node()
    wire = node.client()
    producer = begin(wire, timeout_ms=1000)
    add(wire, 3, producer, t=[0])
    node.advance(1000)
    node.run_until(lambda: known(node).state is TransactionState.COMPLETE_ABORT, 1000)


def test_replicas_that_do_not_follow_let_a_request_time_out():
    node = OneNode(**SETTINGS, request_timeout_ms="400")
    node.add_broker(2)
    wire = node.client()
    wire.create_topic(TRANSACTIONS_TOPIC, replicas=(1, 2))
    node.run_until(lambda: node.broker.transactions.coordinators() is not None)
    started = node.now
    response = wire.call(
        ApiKey.INIT_PRODUCER_ID, 5, transactional_id="x", transaction_timeout=millis(1000)
    )
    assert error_of(response.error_code) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert node.now - started >= 400


def test_values_follow_the_level_of_the_feature():
    node = one_node(**ONE_PARTITION)
    begin(node.client())
    seats = node.broker.transactions
    level = node.broker.image.features.get("transaction.version", 0)
    (coordinator,) = seats.coordinators() or ()
    assert seats.transaction_version == coordinator.transaction_version == level
    log = node.broker.replicas.partitions[TopicPartition(TRANSACTIONS_TOPIC, 0)].log
    assert log.log_end_offset == 1

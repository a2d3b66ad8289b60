"""Goal: a request that needs a producer id waits for one, and is decided once with it."""

from tests.unit.broker.api.transaction_client import one_node
from tidelog.broker.transaction_calls import ask_for_producer, fenced_code
from tidelog.errors import ErrorCode
from tidelog.transactions.messages import InitProducerId


def ask(node, name):
    answers = []
    ask_for_producer(node.broker, InitProducerId(name, 1000), answers.append, node.now)
    return answers


def test_a_new_id_waits_for_the_block_of_the_controller():
    node = one_node()
    one, two = ask(node, "x"), ask(node, "y")
    assert not one and not two
    node.settle()
    ((code, first, epoch),), ((_, second, _),) = one, two
    assert (code, epoch) == (ErrorCode.NONE, 0)
    assert second == first + 1
    # Who has an id needs no other one.
    again = ask(node, "x")
    node.settle()
    assert again[0][1:] == (first, 1)


def test_two_new_producers_of_one_id_at_once():
    node = one_node()
    one, two = ask(node, "x"), ask(node, "x")
    node.settle()
    assert one[0].error_code is ErrorCode.NONE
    assert two[0].error_code is ErrorCode.CONCURRENT_TRANSACTIONS


def test_the_word_for_fenced_depends_on_the_version():
    assert fenced_code(ErrorCode.PRODUCER_FENCED, 1, 2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert fenced_code(ErrorCode.PRODUCER_FENCED, 2, 2) is ErrorCode.PRODUCER_FENCED
    assert fenced_code(ErrorCode.INVALID_TXN_STATE, 1, 2) is ErrorCode.INVALID_TXN_STATE

"""Questions of a tick travel together, to the broker that leads the transaction's partition."""

from tests.unit.broker.one_node import OneNode
from tests.unit.broker.scripted_coordinator import ScriptedCoordinator
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.replication.messages import TransactionalProducer


def ask(node, verdicts, transactional_id, number, *, producer_id=5, bumps_epoch=False):
    """A leader's question."""
    producer = TransactionalProducer(transactional_id, producer_id, 0, bumps_epoch)
    node.broker.replicas.transactions.verify_transaction(
        TopicPartition("t", number), producer, lambda found: verdicts.append(found.code), node.now
    )


def two_partitions():
    node, verdicts = OneNode(), []
    node.client().create_topic("t", 2)
    return node, verdicts


def test_the_questions_of_a_tick_are_one_request():
    node, verdicts = two_partitions()
    coordinator = ScriptedCoordinator(node)
    ask(node, verdicts, "a", 0)
    ask(node, verdicts, "a", 1)
    ask(node, verdicts, "b", 0, producer_id=6, bumps_epoch=True)
    node.settle()
    (request,) = coordinator.listen()
    found = [
        (each.transactional_id, each.verify_only, [topic.partitions for topic in each.topics])
        for each in request.transactions
    ]
    assert found == [("a", True, [(0, 1)]), ("b", False, [(0,)])]
    coordinator.answer()
    assert verdicts == [ErrorCode.NONE] * 3


def test_two_producers_of_one_transactional_id_are_two_requests():
    node, verdicts = two_partitions()
    coordinator = ScriptedCoordinator(node)
    ask(node, verdicts, "a", 0)
    ask(node, verdicts, "a", 0, producer_id=6)
    node.settle()
    assert len(coordinator.listen()) == 2
    coordinator.answer(ErrorCode.PRODUCER_FENCED)
    coordinator.answer()
    assert verdicts == [ErrorCode.PRODUCER_FENCED, ErrorCode.NONE]


def test_without_a_coordinator_the_answer_is_an_error():
    node, verdicts = two_partitions()
    ask(node, verdicts, "a", 0)
    node.settle()
    assert verdicts == [ErrorCode.COORDINATOR_NOT_AVAILABLE]

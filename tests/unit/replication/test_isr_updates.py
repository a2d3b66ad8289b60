"""Proposals travel together, one per partition; requests that are full do not wait."""

import pytest

from tests.unit.log.harness import LogBench
from tests.unit.replication.surroundings import make_env
from tidelog.config import LogConfig
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.limits import MAX_ALTER_PARTITIONS_IN_FLIGHT, MAX_PROPOSALS_PER_REQUEST
from tidelog.model import TopicPartition
from tidelog.replication.isr_updates import IsrUpdates
from tidelog.replication.messages import AlterPartitionProposal, IsrResult, SendAlterPartition
from tidelog.replication.shared import Outbox
from tidelog.sim.replicas.feed import topic_id_of

NOW = Instant(1000)
TOPIC = topic_id_of(1)


def proposal(partition: int) -> AlterPartitionProposal:
    """Something to propose."""
    return AlterPartitionProposal(TopicPartition("orders", partition), TOPIC, 0, 0, (), False)


def make() -> tuple[IsrUpdates, Outbox]:
    """An empty queue."""
    env = make_env(LogBench(LogConfig()))
    return IsrUpdates(env), env.outbox


def sent(outbox: Outbox) -> SendAlterPartition:
    """The one request that was sent."""
    (output,) = outbox.take()
    assert isinstance(output, SendAlterPartition)
    return output


def test_thousands_of_proposals_travel_in_several_requests() -> None:
    """Goal: what one request may carry, in the order of the proposals; all of it in the end."""
    updates, outbox = make()
    count = 2 * MAX_PROPOSALS_PER_REQUEST + 1
    for number in range(count):
        updates.submit(proposal(number))
    carried, now = [], NOW
    while updates.maybe_send(now):
        request = sent(outbox)
        assert len(request.proposals) <= MAX_PROPOSALS_PER_REQUEST
        carried += [each.topic_partition.partition for each in request.proposals]
        now = Instant(now + 3)
        updates.on_response(request.token, (), now)
        updates.check()
    assert carried == list(range(count))


def test_an_answer_at_once_does_not_make_all_of_them_one_turn() -> None:
    """As a controller in the same node gives it that has nothing to commit."""
    updates, outbox = make()
    for number in range(MAX_PROPOSALS_PER_REQUEST + 1):
        updates.submit(proposal(number))
    assert updates.maybe_send(NOW)
    updates.on_response(sent(outbox).token, (), NOW)
    assert not updates.maybe_send(NOW)
    due_at = updates.deadline()
    assert due_at == NOW + 1
    assert updates.maybe_send(due_at)


def test_full_requests_do_not_wait_for_each_other() -> None:
    """Goal: a broker that returns with thousands of partitions does not wait for a hundred round
    trips. A request a turn, and no more at a time than the controller is to be asked."""
    updates, outbox = make()
    most = MAX_ALTER_PARTITIONS_IN_FLIGHT
    for number in range((most + 1) * MAX_PROPOSALS_PER_REQUEST + 1):
        updates.submit(proposal(number))
    tokens = []
    for turn in range(most):
        now = Instant(NOW + turn)
        assert updates.maybe_send(now)
        assert not updates.maybe_send(now)
        tokens.append(sent(outbox).token)
        updates.check()
    assert updates.deadline() is None
    assert not updates.maybe_send(Instant(NOW + most))
    # In any order; what fails goes again after what is queued.
    for token in reversed(tokens[1:]):
        assert len(updates.on_response(token, (), NOW)) == MAX_PROPOSALS_PER_REQUEST
    assert updates.on_response(tokens[0], None, NOW) == []
    updates.check()
    numbers, now = [], Instant(NOW + 100)
    while updates.maybe_send(now):
        request, now = sent(outbox), Instant(now + 1)
        numbers += [each.topic_partition.partition for each in request.proposals]
        updates.on_response(request.token, (), now)
    first_left = most * MAX_PROPOSALS_PER_REQUEST
    left = range(first_left, first_left + MAX_PROPOSALS_PER_REQUEST + 1)
    assert numbers == [*left, *range(MAX_PROPOSALS_PER_REQUEST)]


def test_proposals_of_one_tick_travel_together() -> None:
    """And nothing more is sent before the answer."""
    updates, outbox = make()
    updates.submit(proposal(0))
    updates.submit(proposal(1))
    assert updates.maybe_send(NOW)
    request = sent(outbox)
    assert request.broker_epoch == 7
    assert [each.topic_partition.partition for each in request.proposals] == [0, 1]
    updates.submit(proposal(2))
    assert not updates.maybe_send(NOW)
    updates.check()
    answers = updates.on_response(request.token, [IsrResult(TOPIC, 0, ErrorCode.NONE)], NOW)
    assert [(each.topic_partition.partition, result.error_code) for each, result in answers] == [
        (0, ErrorCode.NONE),
        (1, ErrorCode.UNKNOWN_SERVER_ERROR),
    ]
    assert updates.maybe_send(Instant(NOW + 1))


def test_one_proposal_per_partition() -> None:
    """Queued or in flight."""
    updates, outbox = make()
    updates.submit(proposal(0))
    assert not updates.takes(TopicPartition("orders", 0), TOPIC)
    with pytest.raises(AssertionError, match="OneProposal"):
        updates.submit(proposal(0))
    updates.maybe_send(NOW)
    assert not updates.takes(TopicPartition("orders", 0), TOPIC)
    updates.on_response(sent(outbox).token, [], NOW)
    assert updates.takes(TopicPartition("orders", 0), TOPIC)


@pytest.mark.parametrize("answer", [None, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NOT_CONTROLLER])
def test_a_failed_request_is_sent_again_after_a_pause(answer: ErrorCode | None) -> None:
    """With the broker epoch of then."""
    updates, outbox = make()
    updates.submit(proposal(0))
    updates.maybe_send(NOW)
    assert updates.on_response(sent(outbox).token, answer, NOW) == []
    assert updates.deadline() == NOW + 50
    updates._env.brokers.own_epoch = 8
    assert not updates.maybe_send(Instant(NOW + 49))
    assert updates.maybe_send(Instant(NOW + 50))
    request = sent(outbox)
    assert request.broker_epoch == 8
    assert request.proposals == (proposal(0),)
    assert updates.deadline() is None


def test_a_withdrawn_proposal_is_neither_sent_nor_answered() -> None:
    """Whether it had left or not."""
    updates, outbox = make()
    updates.submit(proposal(0))
    updates.maybe_send(NOW)
    updates.submit(proposal(1))
    for partition in (0, 1):
        updates.withdraw(TopicPartition("orders", partition), TOPIC)
    updates.submit(proposal(0))
    result = IsrResult(TOPIC, 0, ErrorCode.NONE)
    assert updates.on_response(sent(outbox).token, [result], NOW) == []
    updates.maybe_send(Instant(NOW + 1))
    assert sent(outbox).proposals == (proposal(0),)


def test_an_answer_counts_for_the_proposal_that_it_was_asked_for() -> None:
    """A partition whose proposal was withdrawn may have another one in a later request."""
    updates, outbox = make()
    for number in range(MAX_PROPOSALS_PER_REQUEST):
        updates.submit(proposal(number))
    updates.maybe_send(NOW)
    first = sent(outbox).token
    updates.withdraw(TopicPartition("orders", 0), TOPIC)
    updates.submit(proposal(0))
    for number in range(MAX_PROPOSALS_PER_REQUEST, 2 * MAX_PROPOSALS_PER_REQUEST):
        updates.submit(proposal(number))
    assert updates.maybe_send(Instant(NOW + 1))
    second = sent(outbox)
    assert second.proposals[0] == proposal(0)
    answered = updates.on_response(first, [IsrResult(TOPIC, 0, ErrorCode.NONE)], NOW)
    assert 0 not in [each.topic_partition.partition for each, _ in answered]
    assert not updates.takes(TopicPartition("orders", 0), TOPIC)
    updates.check()
    assert len(updates.on_response(second.token, (), NOW)) == MAX_PROPOSALS_PER_REQUEST


def test_a_stale_answer_changes_nothing() -> None:
    """The request under way stays under way."""
    updates, outbox = make()
    updates.submit(proposal(0))
    updates.maybe_send(NOW)
    token = sent(outbox).token
    assert updates.on_response(token + 1, None, NOW) == []
    assert updates.deadline() is None
    assert len(updates.on_response(token, [], NOW)) == 1

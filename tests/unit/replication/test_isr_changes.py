"""Proposals of ISR changes, and what the controller's answers do to them."""

import pytest

from tests.unit.replication.proposing import before_a_proposal, hosted, image, proposed
from tidelog.errors import ErrorCode
from tidelog.replication.isr import Committed
from tidelog.replication.messages import AlterPartitionProposal, IsrResult
from tidelog.replication.partition import Partition
from tidelog.sim.replicas.cluster import Cluster


@pytest.fixture
def cluster() -> Cluster:
    return before_a_proposal()


def result(code: ErrorCode, **values: object) -> IsrResult:
    """An answer about the partition."""
    return IsrResult(bytes(16), 0, code, **values)  # type: ignore[arg-type]


def answered(cluster: Cluster, proposal: AlterPartitionProposal, result: IsrResult) -> bool:
    """Whether the leader sends the proposal again after this answer."""
    return cluster.brokers[1].replicas._isr_changes.on_isr_answer(hosted(cluster), proposal, result)


def test_the_proposal_names_uptimes(cluster: Cluster) -> None:
    """The leader's own and the one of the follower's fetch."""
    _, proposal = proposed(cluster)
    brokers = cluster.feed.image.brokers
    assert [tuple(member) for member in proposal.new_isr] == [
        (1, brokers[1].broker_epoch),
        (2, brokers[2].broker_epoch),
    ]
    assert (proposal.leader_epoch, proposal.partition_epoch, proposal.recovering) == (0, 1, False)


def test_success_commits_and_teaches_the_epoch(cluster: Cluster) -> None:
    """Before the metadata does."""
    partition, proposal = proposed(cluster)
    answer = result(ErrorCode.NONE, leader_epoch=0, isr=(1, 2), partition_epoch=2)
    assert not answered(cluster, proposal, answer)
    assert partition.leadership is not None
    assert partition.leadership.isr_state == Committed((1, 2))
    assert partition.partition_epoch == 2
    assert partition.objection_to(image(1, 0, 2, (1, 2))) is None
    assert partition.objection_to(image(1, 0, 1, (1,))) == "stale partition epoch"


@pytest.mark.parametrize(
    "values", [{"leader_epoch": 1, "partition_epoch": 9}, {"leader_epoch": 0, "partition_epoch": 0}]
)
def test_success_of_another_term_or_of_the_past_is_ignored(
    cluster: Cluster, values: dict[str, int]
) -> None:
    """The proposal stays pending."""
    partition, proposal = proposed(cluster)
    assert not answered(cluster, proposal, result(ErrorCode.NONE, isr=(1, 2), **values))
    assert partition.is_proposing


@pytest.mark.parametrize("code", [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA])
def test_a_refusal_falls_back(cluster: Cluster, code: ErrorCode) -> None:
    """To what was committed."""
    partition, proposal = proposed(cluster)
    assert not answered(cluster, proposal, result(code))
    assert partition.leadership is not None
    assert partition.leadership.isr_state == Committed((1,))


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    ],
)
def test_news_elsewhere_keeps_it_pending(cluster: Cluster, code: ErrorCode) -> None:
    """The metadata will settle it."""
    partition, proposal = proposed(cluster)
    assert not answered(cluster, proposal, result(code))
    assert partition.leadership is not None
    assert partition.leadership.maximal_isr == (1, 2)


def test_other_errors_ask_again(cluster: Cluster) -> None:
    """The same proposal."""
    partition, proposal = proposed(cluster)
    assert answered(cluster, proposal, result(ErrorCode.NOT_CONTROLLER))
    assert partition.is_proposing


def test_an_answer_to_an_older_proposal_is_ignored(cluster: Cluster) -> None:
    """Or to none."""
    partition, proposal = proposed(cluster)
    older = proposal._replace(partition_epoch=0)
    assert not answered(cluster, older, result(ErrorCode.INELIGIBLE_REPLICA))
    assert partition.is_proposing
    answered(cluster, proposal, result(ErrorCode.INELIGIBLE_REPLICA))
    assert not answered(cluster, proposal, result(ErrorCode.NOT_CONTROLLER))


def is_settled(partition: Partition) -> bool:
    """Whether broker 2 asks for the partition, and its next fetch does not read it."""
    ((interest, wanted),) = partition.readers.items()
    return wanted not in interest.due


def test_who_joins_is_not_read_again(cluster: Cluster) -> None:
    """A restart with ten thousand partitions would read each of them ten times."""
    partition, _ = proposed(cluster)
    assert is_settled(partition)
    cluster.feed.change("orders", isr=(1, 2))
    cluster.run(0)
    assert partition.maximal_isr == {1, 2}
    assert is_settled(partition)


def test_who_has_left_is_read_again(cluster: Cluster) -> None:
    """What it reads shows that it may join; nothing else does."""
    partition, _ = proposed(cluster)
    cluster.held.add((2, 1))
    cluster.feed.change("orders", isr=(1, 2))
    cluster.run(0)
    cluster.feed.change("orders", isr=(1,))
    cluster.run(0)
    assert partition.maximal_isr == {1}
    assert not is_settled(partition)
    cluster.release(2, 1)
    cluster.run(600)
    assert partition.maximal_isr == {1, 2}

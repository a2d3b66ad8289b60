"""Roles of one replica, and what metadata does to a proposal."""

import pytest

from tests.unit.replication.proposing import before_a_proposal, hosted, image, proposed
from tidelog.errors import ErrorCode
from tidelog.log.values import LogFlush
from tidelog.replication.isr import Committed
from tidelog.replication.messages import IsrResult
from tidelog.replication.partition import Role
from tidelog.sim.replicas.cluster import Cluster


@pytest.fixture
def cluster() -> Cluster:
    return before_a_proposal()


def test_metadata_of_the_proposals_own_base_keeps_it(cluster: Cluster) -> None:
    """An answer may bring an epoch before the metadata does; then a new proposal is made on top of
    it; then the metadata brings that epoch. The proposal is still in flight and must count."""
    partition, proposal = proposed(cluster)
    now = cluster.now
    partition.become_leader(image(1, 0, proposal.partition_epoch, (1,)), now)
    assert partition.leadership is not None
    assert partition.leadership.maximal_isr == (1, 2)
    partition.become_leader(image(1, 0, proposal.partition_epoch + 1, (1,)), now)
    assert partition.leadership.maximal_isr == (1,)


def test_a_new_term_voids_what_was_proposed(cluster: Cluster) -> None:
    """And followers have not fetched in it."""
    partition, proposal = proposed(cluster)
    assert partition.become_leader(image(1, 1, 2, (1,)), cluster.now)
    assert partition.leadership is not None
    assert partition.leadership.isr_state == Committed((1,))
    assert partition.log.latest_epoch == 1
    changes = cluster.brokers[1].replicas._isr_changes
    answer = IsrResult(bytes(16), 0, ErrorCode.NOT_CONTROLLER)
    assert not changes.on_isr_answer(partition, proposal, answer)


def test_roles_follow_the_metadata(cluster: Cluster) -> None:
    """Epochs only grow."""
    cluster.run(0)
    partition = hosted(cluster)
    assert partition.role is Role.LEADER
    assert partition.become_follower(image(2, 1, 2, (2,)))
    assert partition.role is Role.FOLLOWER
    assert not partition.become_follower(image(2, 1, 3, (2, 1)))
    with pytest.raises(AssertionError, match="LeaderEpochMonotonic"):
        partition.become_follower(image(2, 0, 4, (2, 1)))
    assert partition.leader_hint is not None and partition.leader_hint.leader_id == 2
    assert partition.become_follower(image(-1, 2, 4, (2,)))
    assert partition.leader_hint is None


def test_offline_is_for_good(cluster: Cluster) -> None:
    """Whatever the metadata demands."""
    cluster.run(0)
    partition = hosted(cluster)
    partition.go_offline("broken")
    assert partition.role is Role.OFFLINE
    assert partition.objection_to(image(1, 1, 2, (1,))) == "offline"
    assert partition.error_of_request(partition.topic_id, -1) is ErrorCode.KAFKA_STORAGE_ERROR


def test_one_flush_at_a_time(cluster: Cluster) -> None:
    """What arrives while one is under way is covered by the next."""
    cluster.feed.configure("orders", "flush.messages", "1")
    cluster.brokers[1].flushes = False
    cluster.run(0)
    partition = hosted(cluster)
    cluster.produce(1, [b"a"], acks=1)
    cluster.run(0)
    assert not partition.is_flushed
    cluster.produce(1, [b"b"], acks=1)
    cluster.run(0)
    flushes = [
        effect.subject
        for effect in cluster.brokers[1].waiting_flushes
        if isinstance(effect.subject, LogFlush) and effect.subject.completes
    ]
    assert [subject.upto for subject in flushes] == [1]
    cluster.brokers[1].flushes = True
    cluster.run(0)
    assert partition.is_flushed
    assert partition.log.recovery_point == 2

"""Voters that change while everything else fails, in the quorum tier."""

import pytest

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.kraft.messages import (
    AddVoterRequest,
    CommittedBatch,
    RemoveVoterRequest,
    ReplicaKey,
    Voter,
    VoterChangeResponse,
)
from tidelog.sim.campaign.seeds import run_seed
from tidelog.sim.campaign.tally import Tally
from tidelog.sim.engine.formation import CLUSTER_ID
from tidelog.sim.quorum.cluster import QuorumCluster
from tidelog.sim.quorum.membership import MARKS, VoterOracle, directory_of, draw_change, endpoint_of
from tidelog.sim.quorum.options import QUICK, Composition, Conditions
from tidelog.sim.report.violation import Violation
from tidelog.sim.runs.quorum import draw_quorum

SEEDS = 150


def voter(node_id: int, port: int = 9093) -> Voter:
    """A replica as the voter set has it."""
    return Voter(node_id, directory_of(node_id), (endpoint_of(node_id, port),))


class Shown:
    """What a replica shows of its voters."""

    def __init__(self, *sets: tuple[int, tuple[int, ...]], end: int, leads: bool = True) -> None:
        self.voter_sets = [
            (offset, {key: voter(key) for key in members}) for offset, members in sets
        ]
        self.high_watermark = end
        self.is_leader = leads


def test_seeds_with_changing_voters_reach_every_rare_state():
    """Goal: the draw reaches what it is for, and the quorum stays right under it."""
    tally = Tally()
    for seed in (seed for seed in range(1, SEEDS) if draw_quorum(seed).dynamic):
        outcome = run_seed("quorum", "all", seed)
        assert outcome.violation is None, f"seed {seed}: {outcome.violation}"
        tally.add(outcome)
    assert set(tally.marks) == set(MARKS)
    assert tally.faults["add-voter"] > 50 and tally.faults["remove-voter"] > 50
    assert tally.faults["wipe"] > 20


def dynamic_cluster(voters: int, observers: int = 0, snapshot_every: int = 0) -> QuorumCluster:
    """A running quorum whose voters are in the log."""
    cluster = QuorumCluster(
        Prng(1),
        composition=Composition(voters, observers, dynamic=True, snapshot_every=snapshot_every),
        config=QUICK,
        conditions=Conditions(),
    )
    for replica in cluster.replicas.values():
        cluster.start(replica)
    assert cluster.run_until(lambda: cluster.leader() is not None, 5_000)
    cluster.run(500)
    return cluster


def test_a_restart_behind_a_snapshot_finds_the_voters():
    """Goal: a log that still has the records below the newest snapshot does not count its voters
    twice. Such a node could never start again."""
    cluster = dynamic_cluster(1, snapshot_every=3)
    leader = cluster.leader()
    for index in range(8):
        cluster.append(leader, [b"%d" % index])
        cluster.run(100)
    snapshot = leader.quorum.latest_snapshot
    assert snapshot.end_offset > 3 and leader.log.log_start_offset == 0
    cluster.kill(leader)
    cluster.start(leader)
    assert cluster.run_until(lambda: leader.quorum.is_leader, 5_000)
    assert list(leader.quorum.voters) == [1] and leader.quorum.kraft_version == 1


def test_an_added_voter_counts_and_a_removed_leader_hands_over():
    """Goal: the stage itself works: changes are made, seen by all, and marked."""
    cluster = dynamic_cluster(3, observers=1)
    leader = cluster.leader()
    cluster.change_voters(leader, AddVoterRequest(CLUSTER_ID, voter(4)))
    cluster.run(1_000)
    assert all(list(one.quorum.voters) == [1, 2, 3, 4] for one in cluster.alive())
    key = ReplicaKey(leader.node_id, directory_of(leader.node_id))
    cluster.change_voters(leader, RemoveVoterRequest(CLUSTER_ID, key))
    cluster.run(3_000)
    successor = cluster.leader()
    assert successor.node_id != leader.node_id and leader.node_id not in successor.quorum.voters
    assert set(cluster.voter_oracle.marks) >= {
        "voters: added",
        "voters: removed",
        "voters: the leader removed itself",
    }


def test_a_batch_of_another_epoch_does_not_count():
    """Goal: *Durability* does not count a voter that has a deposed leader's records there."""
    cluster = dynamic_cluster(3)
    follower = next(one for one in cluster.alive() if not one.quorum.is_leader)
    last = follower.log.log_end_offset - 1
    for epoch, is_held in ((cluster.leader().quorum.epoch, True), (9, False)):
        batch = CommittedBatch(last, last, epoch, 0, [], is_control=True)
        assert cluster.has_durable(follower.voter, batch) is is_held


def test_a_wiped_voter_counts_for_nothing_until_it_is_added_again():
    """Goal: VoterIsItsDisk on the stage: the replica has everything again, the voter has not."""
    cluster = dynamic_cluster(3)
    leader = cluster.leader()
    wiped, other = (one for one in cluster.replicas.values() if one is not leader)
    cluster.kill(wiped)
    cluster.wipe(wiped)
    cluster.start(wiped)
    cluster.run(500)
    cluster.kill(other)
    last = cluster.append(leader, [b"of one voter"])
    assert cluster.run_until(lambda: wiped.log.recovery_point > last, 1_000)
    cluster.run(200)
    assert leader.quorum.high_watermark <= last
    epoch = leader.quorum.epoch
    voters = leader.quorum.voters.values()
    assert sum(cluster.has_record(voter, last, epoch) for voter in voters) == 1
    cluster.start(other)
    assert cluster.run_until(lambda: leader.quorum.high_watermark > last, 5_000)

    asked = [
        draw_change(Prng(seed), leader.quorum, cluster.as_voters, cluster_id=CLUSTER_ID)
        for seed in range(20)
    ]
    old = ReplicaKey(wiped.node_id, directory_of(wiped.node_id))
    assert {type(one) for one in asked} == {AddVoterRequest, RemoveVoterRequest}
    too_early = next(one for one in asked if isinstance(one, AddVoterRequest))
    assert too_early.voter == wiped.voter
    assert {one.voter for one in asked if isinstance(one, RemoveVoterRequest)} == {old}
    for request in (too_early, RemoveVoterRequest(CLUSTER_ID, old), too_early):
        cluster.change_voters(leader, request)
        cluster.run(1_000)
    assert leader.quorum.voters[wiped.node_id].directory_id == wiped.key.directory_id
    assert set(cluster.voter_oracle.marks) == {
        "voters: lost its disk",
        "voters: removed",
        "voters: added",
        "voters: added again with another disk",
    }


def test_two_changes_at_once_are_noticed():
    """Goal: OneChangeAtATime, among committed sets and among those that a leader has pending."""
    for shown, end in (
        (Shown((0, (1, 2, 3)), (5, (1,)), end=9), 9),
        (Shown((0, (1, 2, 3)), (5, (1, 2)), (7, (1,)), end=3), 3),
    ):
        with pytest.raises(Violation, match="OneChangeAtATime"):
            VoterOracle().check_sets(1, shown, end)
    fine = Shown((0, (1, 2, 3)), (5, (1, 2)), (7, (1,)), end=6)
    VoterOracle().check_sets(1, fine, 6)


def test_a_committed_set_that_changes_is_noticed():
    """Goal: CommittedForever for voter sets, seen by two replicas."""
    oracle = VoterOracle()
    oracle.check_sets(1, Shown((4, (1, 2)), end=9), 9)
    oracle.check_sets(2, Shown((4, (1, 2)), end=5, leads=False), 9)
    with pytest.raises(Violation, match="CommittedForever"):
        oracle.check_sets(3, Shown((4, (1, 3)), end=5, leads=False), 9)


def test_an_acknowledged_change_that_is_not_committed_is_noticed():
    """Goal: AcknowledgedChange, for additions and removals."""
    made = VoterChangeResponse(ErrorCode.NONE)
    add = AddVoterRequest(CLUSTER_ID, voter(3))
    remove = RemoveVoterRequest(CLUSTER_ID, ReplicaKey(3, directory_of(3)))
    pending = Shown((0, (1, 2)), (5, (1, 2, 3)), end=5)
    settled = Shown((0, (1, 2)), (5, (1, 2, 3)), end=6)
    VoterOracle().check_answer(1, settled, add, made)
    VoterOracle().check_answer(1, pending, remove, made)
    for shown, request in ((pending, add), (settled, remove)):
        with pytest.raises(Violation, match="AcknowledgedChange"):
            VoterOracle().check_answer(1, shown, request, made)

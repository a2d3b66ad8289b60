"""Checkers that look into replicas: where all is well, and where a test has tampered."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.sim.test_cluster import led_world, partition

from tidelog.controller.elections import Outcome
from tidelog.controller.events import (
    Cause,
    CauseKind,
    LeaderElected,
    LeaderLost,
    UncleanLeaderElected,
)
from tidelog.env.event import Event
from tidelog.errors import ErrorCode
from tidelog.kraft.messages import CommittedBatch, ReplicaKey, Voter
from tidelog.model import METADATA_PARTITION, ZERO_UUID, TopicPartition, Uuid
from tidelog.records.batch import iter_headers
from tidelog.sim.checkers.base import Evidence
from tidelog.sim.checkers.image_is_fold_of_log import ImageIsFoldOfLog
from tidelog.sim.checkers.loss_is_reported import LossIsReported
from tidelog.sim.checkers.replicas import CandidateCompleteness, ReplicasEqual
from tidelog.sim.checkers.watch import Watch
from tidelog.sim.engine.client import SimClient
from tidelog.sim.evidence.history import History
from tidelog.sim.evidence.oracle import Oracle, partition_id
from tidelog.sim.quorum.oracle import QuorumOracle
from tidelog.sim.replicas.cluster import Producer
from tidelog.sim.replicas.watched import WatchedCluster
from tidelog.sim.report.violation import Violation

KEY = TopicPartition("t", 0)
CAUSE = Cause(CauseKind.UNCLEAN_ALLOWED)


def rejects(name: str):
    return pytest.raises(Violation, match=f"^{name}: ")


@pytest.fixture
def found():
    """Three replicas of three committed records, as the oracle saw them."""
    world, client, leader = led_world()
    evidence = Evidence(world, Oracle(), History())
    world.driver.observers.append(Watch(evidence, (), sweep_every=1_000_000).on_event)
    for value in (b"a", b"b", b"c"):
        assert client.produce("t", 0, [value]).partitions[0].error_code == ErrorCode.NONE
    world.run_for(1_000)
    (pid,) = evidence.oracle.logs
    assert evidence.oracle.logs[pid].end_offset == 3
    assert pid == partition_id(replica(evidence, leader))
    return evidence


def replica(evidence, node_id):
    return evidence.world.hosts[node_id].node.broker.replicas.partitions[KEY]


def a_follower(evidence):
    leader = partition(evidence.world, "t").leader
    return next(node_id for node_id in (1, 2, 3) if node_id != leader)


def test_candidate_completeness(found):
    checker = CandidateCompleteness()
    checker.sweep(found)
    follower = a_follower(found)
    replica(found, follower).log.truncate_to(2)
    with rejects("CandidateCompleteness"):
        checker.sweep(found)
    found.world.kill(follower)
    checker.sweep(found)


def test_candidate_completeness_looks_at_epochs(found):
    log = replica(found, a_follower(found)).log
    log.epochs.assign(7, 2)
    with rejects("CandidateCompleteness"):
        CandidateCompleteness().sweep(found)


def test_replicas_equal(found):
    ReplicasEqual().at_end(found)
    replica(found, a_follower(found)).log.truncate_to(2)
    with rejects("ReplicasEqual"):
        ReplicasEqual().at_end(found)


def test_replicas_equal_to_what_was_committed(found):
    for node_id in (1, 2, 3):
        replica(found, node_id).log.truncate_to(2)
    with rejects("ReplicasEqual"):
        ReplicasEqual().at_end(found)


class Loss:
    """The last of three committed records goes when its leader begins anew."""

    def __init__(self, found, *, lost: int = 1):
        self.partition = partition(found.world, "t")
        self.checker = LossIsReported()
        self.leader, self.epoch = self.partition.leader, self.partition.leader_epoch
        host = found.world.hosts[self.leader]
        self.checker.on_event(host)
        host.node.broker.replicas.partitions[KEY].log.truncate_to(3 - lost)
        host.life += 1
        self.checker.on_event(host)

    def reports(self, *, topic: str = "t", leader: int = 0, epoch: int = 0) -> list[Event]:
        """What a controller decides in an unclean election, by default in the one that it was."""
        subject: dict[str, Any] = {"partition": TopicPartition(topic, 0), "cause": CAUSE}
        who = leader or self.leader
        return [
            UncleanLeaderElected(
                **subject, reason=Outcome.UNCLEAN, leader=who, instead_of=(), last_leader=()
            ),
            LeaderElected(
                **subject,
                reason=Outcome.UNCLEAN,
                leader=who,
                was=-1,
                leader_epoch=self.epoch + epoch,
                isr=(who,),
                elr=(),
            ),
        ]

    def judge(self, *events: Event, **change: Any) -> None:
        checker = self.checker
        checker._given_up, checker._leaderless, checker._about_to_lead = set(), set(), {}
        for event in events:
            checker.on_decision("host1", event)
        checker.judge("t-0", replace(self.partition, **change), ["c"])


def test_a_loss_is_reported_by_its_own_election(found):
    loss = Loss(found)
    loss.judge(*loss.reports())
    others = (loss.reports(epoch=-1), loss.reports(epoch=1), loss.reports(topic="other"))
    for events in ([], *others, loss.reports(leader=9), loss.reports()[:1], loss.reports()[1:]):
        with rejects("LossIsReported"):
            loss.judge(*events)


def test_a_partition_that_waits_reports_nothing_of_what_had_gone_before(found):
    loss, waiting = Loss(found), Loss(found, lost=0)
    lost = LeaderLost(
        partition=KEY,
        reason=Outcome.LEADERLESS,
        leader=-1,
        was=1,
        leader_epoch=loss.epoch,
        isr=(),
        elr=(),
        cause=CAUSE,
    )
    waiting.judge(lost, leader=-1)
    with rejects("LossIsReported"):
        waiting.judge(leader=-1)
    with rejects("LossIsReported"):
        waiting.judge(lost, leader=-1, leader_epoch=loss.epoch + 1)
    with rejects("LossIsReported"):
        loss.judge(lost, leader=-1)


def test_what_a_deposed_leader_commits_goes_with_the_newest_election(found):
    loss = Loss(found, lost=0)
    newer = loss.checker._newest["t-0"]._replace(leader=9, leader_epoch=loss.epoch + 1)
    loss.checker._newest["t-0"] = newer
    client = SimClient(found.world, loss.leader)
    client.produce("t", 0, [b"d"])
    found.world.run_for(100)
    loss.checker.on_event(found.world.hosts[loss.leader])
    assert loss.checker._gone["t-0"] == {"d": newer}


def images_of(evidence):
    return [(host, host.node.broker.image) for host in evidence.world.hosts.values()]


def test_image_is_fold_of_log(found):
    """Images that came before the fold got to their offset, and after it."""
    checker = ImageIsFoldOfLog()
    for host, image in images_of(found):
        checker.on_image(host, image)
    checker.at_end(found)
    for host, image in images_of(found):
        checker.on_image(host, image)
        with rejects("ImageIsFoldOfLog"):
            checker.on_image(host, replace(image, next_producer_id=1 << 40))


def test_images_on_which_all_nodes_agree_are_not_the_fold_of_the_log(found):
    checker = ImageIsFoldOfLog()
    for host, image in images_of(found):
        checker.on_image(host, replace(image, next_producer_id=1 << 40))
    with rejects("ImageIsFoldOfLog"):
        checker.look(found)


def test_a_fold_looks_at_each_fifth_sweep(found):
    checker = ImageIsFoldOfLog()
    for host, image in images_of(found):
        checker.on_image(host, replace(image, next_producer_id=1 << 40))
    for _ in range(4):
        checker.sweep(found)
    with rejects("ImageIsFoldOfLog"):
        checker.sweep(found)


def test_an_image_that_no_log_leads_to(found):
    node = found.world.hosts[2].node
    node.broker.image = replace(node.broker.image, offset=node.broker.image.offset + 7)
    with rejects("ImageIsFoldOfLog"):
        ImageIsFoldOfLog().at_end(found)


def test_a_fold_goes_on_behind_what_retention_took(found):
    """From an image that a node had there."""
    checker = ImageIsFoldOfLog()
    for host, image in images_of(found):
        checker.on_image(host, image)
    begin = found.world.hosts[1].node.broker.image.offset + 1
    path = f"{METADATA_PARTITION}/{0:020}.log"
    for host in found.world.hosts.values():
        content = host.disk.content(path)
        kept = [at for at, header in iter_headers(content.data) if header.base_offset >= begin]
        data = bytes(content.data[kept[0] :]) if kept else b""
        with host.disk.observed():
            host.disk.replace(f"{METADATA_PARTITION}/{begin:020}.log", data)
            host.disk.delete(path)
    checker.at_end(found)
    with rejects("ImageIsFoldOfLog"):
        ImageIsFoldOfLog().at_end(found)


# The quorum's oracle ------------------------------------------------------------------------------


def batch(base_offset: int, epoch: int = 1, value: bytes = b"r") -> CommittedBatch:
    return CommittedBatch(base_offset, base_offset, epoch, 0, [value], False)


def voters_of(*keys: int) -> dict[int, Voter]:
    return {key: Voter(key, ZERO_UUID, ()) for key in keys}


THREE: Any = SimpleNamespace(voters=voters_of(1, 2, 3), voter_sets=(), epoch=1)


@pytest.mark.parametrize(("changed_at", "is_fine"), [(5, True), (0, False)])
def test_durability_beside_a_change_of_the_voters(changed_at, is_fine):
    """The set before counts only where the change came after the record."""
    four = voters_of(1, 2, 3, 4)
    sets = ((-1, voters_of(1, 2, 3)), (changed_at, four))
    quorum: Any = SimpleNamespace(voters=four, voter_sets=sets, epoch=1)
    oracle = QuorumOracle(lambda voter, batch: voter.node_id < 3)
    batch = CommittedBatch(0, 0, 1, 0, [b"a"], is_control=False)
    with nullcontext() if is_fine else rejects("Durability"):
        oracle.check_committed(1, batch, quorum)


def test_election_safety():
    oracle = QuorumOracle(lambda voter, batch: False)
    assert oracle.check_election_safety(1, 4)
    assert not oracle.check_election_safety(1, 4)
    assert oracle.check_election_safety(2, 5)
    with rejects("ElectionSafety"):
        oracle.check_election_safety(2, 4)


def test_vote_uniqueness():
    oracle = QuorumOracle(lambda voter, batch: False)
    voter, on_another_disk = ReplicaKey(1), ReplicaKey(1, Uuid(b"x" * 16))
    oracle.check_vote(voter, 4, 2)
    oracle.check_vote(voter, 4, 2)
    oracle.check_vote(voter, 5, 3)
    oracle.check_vote(on_another_disk, 4, 3)
    with rejects("VoteUniqueness"):
        oracle.check_vote(voter, 4, 3)


def test_committed_for_ever():
    oracle = QuorumOracle(lambda voter, batch: voter.node_id < 3)
    oracle.check_committed(1, batch(0), THREE)
    oracle.check_committed(2, batch(0), THREE)
    with rejects("CommittedForever"):
        oracle.check_committed(2, batch(0, value=b"other"), THREE)
    with rejects("CommittedForever"):
        oracle.check_committed(2, batch(5), THREE)


def test_durability():
    oracle = QuorumOracle(lambda voter, batch: voter.node_id <= 2 - batch.base_offset)
    oracle.check_committed(1, batch(0), THREE)
    with rejects("Durability"):
        oracle.check_committed(1, batch(1), THREE)


# The watched cluster ------------------------------------------------------------------------


def a_cluster(*, controlled: bool = False) -> WatchedCluster:
    """Two brokers with one committed record."""
    cluster = WatchedCluster((1, 2), controlled=controlled)
    cluster.topic(1, 2)
    cluster.send(1, "a")
    cluster.run(200)
    return cluster


def test_a_cluster_that_is_well_finishes():
    cluster = a_cluster()
    cluster.read(1, 0)
    cluster.finish()
    assert cluster.acknowledged == {0: b"a"}


def test_a_cluster_sees_a_leader_without_committed_records():
    cluster = a_cluster()
    cluster.log_of(2).truncate_to(0)
    cluster.kill(1)
    cluster.feed.change("orders", leader=2, isr=(2,))
    with rejects("LeaderCompleteness"):
        cluster.run(10)


def test_a_cluster_sees_two_histories():
    cluster = a_cluster()
    cluster.committed[0] = cluster.committed[0]._replace(value=b"other")
    with rejects("CommittedOnce"):
        cluster.send(1, "b")


def test_a_cluster_sees_a_fenced_member_of_the_isr():
    cluster = a_cluster(controlled=True)
    cluster.feed.fence(2)
    with rejects("FencedOutOfIsr"):
        cluster.run(10)


@pytest.mark.parametrize(
    ("name", "tamper"),
    [
        ("NothingLost", lambda cluster: cluster.acknowledged.update({1: b"never"})),
        ("RepeatableRead", lambda cluster: cluster._polled.update({0: b"other"})),
        ("Liveness", lambda cluster: cluster.feed.change("orders", leader=-1)),
    ],
)
def test_the_end_of_a_run_is_judged(name, tamper):
    cluster = a_cluster()
    tamper(cluster)
    with rejects(name):
        cluster.finish()


def test_the_end_of_a_run_finds_duplicates():
    cluster = a_cluster()
    cluster.send(1, "b", producer=Producer(7, 0, 0))
    cluster.send(1, "b", producer=Producer(8, 0, 0))
    with rejects("NoDuplicates"):
        cluster.finish()


def test_forgiven_records_may_be_lost():
    cluster = a_cluster()
    cluster.forgive()
    cluster.log_of(2).truncate_to(0)
    cluster.kill(1)
    cluster.feed.change("orders", leader=2, isr=(2,))
    cluster.run(50)
    cluster.finish()
    assert cluster.values(1) == []

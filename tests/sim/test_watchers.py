"""Checkers of replicas, leaders and metadata: what each must reject, and what is just fine."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.broker.events import DirectoryFailed
from tidelog.env.trace import Level, TraceLine
from tidelog.errors import CorruptBatch, StorageError
from tidelog.kraft.events import BecameUnattached, RoleCause, RoleReason
from tidelog.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from tidelog.model import TopicId, TopicPartition, Uuid
from tidelog.replication.events.roles import FollowingBegan
from tidelog.sim.checkers import replicas
from tidelog.sim.checkers.base import Evidence
from tidelog.sim.checkers.leaders import HighWatermarkBounds, MinIsrGuard
from tidelog.sim.checkers.metadata import EpochsRise, FencedNeverInSync, ValidIsrAndElr
from tidelog.sim.checkers.replicas import (
    CommittedNeverTruncated,
    EpochCacheMatchesBatches,
    LateReplicasWait,
    LogMatching,
    MaximalIsrSuperset,
    OffsetsInOrder,
    OneQuorumLeaderPerEpoch,
    TrueHighWatermarkMonotonic,
)
from tidelog.sim.evidence.history import History
from tidelog.sim.evidence.oracle import BatchMark, Oracle, PartitionId, TrueLog
from tidelog.sim.report.marks import MARKS, MarksHit
from tidelog.sim.report.violation import Violation

TOPIC = TopicId(b"\x01\x02\x03" + bytes(13))
PID = PartitionId(TOPIC, "t", 0)
A, B = BatchMark(0, 4, 0, 11), BatchMark(5, 9, 1, 12)


def rejects(name: str):
    return pytest.raises(Violation, match=f"^{name}: ")


class Replica(SimpleNamespace):
    """A hosted replica; hashed by identity, as the real one."""

    __hash__ = object.__hash__


def a_log(*marks: BatchMark, high_watermark: int = 0, start: int = 0, **more: Any) -> Any:
    end = marks[-1].last_offset + 1 if marks else start
    values = {"log_start_offset": start, "high_watermark": high_watermark, "marks": marks}
    values |= {"last_stable_offset": high_watermark, "log_end_offset": end, "cleaned_to": -1}
    values["config"] = SimpleNamespace(cleanup_policy=("delete",))
    values["epoch_at"] = lambda offset: next(m.leader_epoch for m in marks if offset <= m[1])
    return SimpleNamespace(**{**values, **more})


def a_replica(log: Any, **more: Any) -> Replica:
    values = {"topic_id": TOPIC, "topic_partition": TopicPartition("t", 0), "offline": None}
    values |= {"leadership": None, "leader_epoch": 1, "log": log}
    return Replica(**{**values, **more})


def a_host(node_id: int, *partitions: Replica, leads: int = -1) -> Any:
    replicas = SimpleNamespace(
        partitions={one.topic_partition: one for one in partitions}, broker_epoch=6 + node_id
    )
    quorum = SimpleNamespace(is_leader=leads >= 0, epoch=leads)
    node = SimpleNamespace(broker=SimpleNamespace(replicas=replicas, quorum=quorum))
    disk = SimpleNamespace(is_well=True, damaged=False, was_damaged=False)
    return SimpleNamespace(
        node_id=node_id, name=f"host{node_id}", node=node, disk=disk, all_well=True, all_sound=True
    )


def a_broker(node_id: int, broker_epoch: int, *, fenced: bool = False) -> BrokerImage:
    return BrokerImage(
        node_id, broker_epoch, Uuid(bytes(16)), (), None, fenced, False, {}, (), broker_epoch
    )


PARTITION = PartitionImage((1, 2, 3), (1, 2), 1, 1, 4)


def an_image(partition: PartitionImage = PARTITION, *brokers: BrokerImage) -> MetadataImage:
    topic = TopicImage("t", TOPIC, {0: partition})
    return MetadataImage(
        offset=partition.partition_epoch,
        topics_by_id={TOPIC: topic},
        topics_by_name={"t": topic},
        brokers={
            one.node_id: one for one in brokers or (a_broker(1, 7), a_broker(2, 8), a_broker(3, 9))
        },
    )


def evidence(*hosts: Any, committed: tuple[BatchMark, ...] = (A, B)) -> Evidence:
    world: Any = SimpleNamespace(hosts={host.node_id: host for host in hosts})
    found = Evidence(world, Oracle(), History())
    found.oracle.logs[PID] = TrueLog(list(committed), committed[-1].last_offset + 1)
    found.newest_image = an_image()
    return found


@pytest.fixture(autouse=True)
def read_fake_logs(monkeypatch):
    def marks_of(log: Any, start: int, end: int) -> list[BatchMark]:
        return [mark for mark in log.marks if start <= mark.base_offset < end]

    monkeypatch.setattr(replicas, "marks_of", marks_of)


def test_true_high_watermark_monotonic():
    found, checker = evidence(), TrueHighWatermarkMonotonic()
    checker.sweep(found)
    checker.sweep(found)
    found.oracle.logs[PID] = TrueLog([A], 5)
    with rejects("TrueHighWatermarkMonotonic"):
        checker.sweep(found)
    found.oracle.logs[PID] = TrueLog([A, B], 9)
    with rejects("TrueHighWatermarkMonotonic"):
        TrueHighWatermarkMonotonic().sweep(found)


def test_log_matching():
    other = B._replace(crc=99)
    fine = evidence(
        a_host(1, a_replica(a_log(A, B, high_watermark=10))),
        a_host(2, a_replica(a_log(A, other, high_watermark=5))),
    )
    LogMatching().sweep(fine)
    bad = evidence(a_host(2, a_replica(a_log(A, other, high_watermark=10))))
    with rejects("LogMatching"):
        LogMatching().sweep(bad)


@pytest.mark.parametrize("error", [CorruptBatch("bad crc"), StorageError("t-0", "gone")])
def test_log_matching_reads_everything(monkeypatch, error):
    """What cannot be read does not match, unless a fault has damaged the disk."""

    def cannot_be_read(log: Any, start: int, end: int) -> list[BatchMark]:
        raise error

    host = a_host(1, a_replica(a_log(A, B, high_watermark=10)))
    monkeypatch.setattr(replicas, "marks_of", cannot_be_read)
    with rejects("LogMatching"):
        LogMatching().sweep(evidence(host))
    host.disk.damaged = True
    LogMatching().sweep(evidence(host))


def test_log_matching_reads_what_is_new():
    log = a_log(A, B, high_watermark=5)
    found, checker = evidence(a_host(1, a_replica(log))), LogMatching()
    checker.sweep(found)
    log.marks, log.high_watermark = (A, B._replace(leader_epoch=0)), 10
    with rejects("LogMatching"):
        checker.sweep(found)


def test_committed_never_truncated():
    log = a_log(A, B, high_watermark=5)
    found, checker = evidence(a_host(1, a_replica(log))), CommittedNeverTruncated()
    checker.sweep(found)
    log.log_end_offset = 5
    checker.sweep(found)
    log.log_end_offset = 4
    with rejects("CommittedNeverTruncated"):
        checker.sweep(found)


def test_what_the_leader_has_deleted_may_be_cut():
    """A replica that comes back late cuts its log in several turns, and begins anew where the
    leader's log begins."""
    log, leaders = a_log(A, B, high_watermark=10), a_log(high_watermark=20, log_end_offset=20)
    leader = a_replica(leaders, leadership=SimpleNamespace())
    found, checker = (
        evidence(a_host(1, a_replica(log)), a_host(2, leader)),
        CommittedNeverTruncated(),
    )
    checker.sweep(found)
    leaders.log_start_offset = 10
    checker.sweep(found)
    log.log_end_offset = 5
    checker.sweep(found)
    found.world.hosts.pop(2)
    checker.sweep(found)
    leaders.log_start_offset = 9
    other = evidence(a_host(1, a_replica(log)), a_host(2, leader))
    log.log_end_offset, checker = 10, CommittedNeverTruncated()
    checker.sweep(other)
    log.log_end_offset = 5
    with rejects("CommittedNeverTruncated"):
        checker.sweep(other)


def a_follower_of_the_metadata(*partitions: Replica, is_behind: bool = False) -> Any:
    """Host 1 with these replicas, and the metadata that it has published."""
    host = a_host(1, *partitions)
    host.node.broker.image = an_image()
    host.node.broker.replicas.is_behind = is_behind
    host.node.broker.replicas.damaged = ()
    return host


def test_late_replicas_wait():
    """One that follows other metadata than the published is in the queue."""
    fine, late = a_replica(a_log(A)), a_replica(a_log(A), leader_epoch=0)
    gone = a_replica(a_log(A), topic_id=TopicId(bytes(16)))
    LateReplicasWait().sweep(evidence(a_follower_of_the_metadata(fine)))
    LateReplicasWait().at_end(evidence(a_follower_of_the_metadata(fine)))
    for wrong in (late, gone):
        LateReplicasWait().sweep(evidence(a_follower_of_the_metadata(wrong, is_behind=True)))
        with rejects("LateReplicasWait"):
            LateReplicasWait().sweep(evidence(a_follower_of_the_metadata(wrong)))


def test_at_the_end_no_replica_waits_and_none_is_missing():
    fine = a_replica(a_log(A))
    for wrong in (a_follower_of_the_metadata(fine, is_behind=True), a_follower_of_the_metadata()):
        with rejects("LateReplicasWait"):
            LateReplicasWait().at_end(evidence(wrong))


def test_maximal_isr_superset():
    leadership = SimpleNamespace(maximal_isr=(1, 2), isr=(1, 2), min_isr=2)
    partition = a_replica(a_log(A), leadership=leadership, partition_epoch=4)
    found = evidence(a_host(1, partition))
    MaximalIsrSuperset().sweep(found)
    leadership.maximal_isr = (1,)
    with rejects("MaximalIsrSuperset"):
        MaximalIsrSuperset().sweep(found)
    partition.leader_epoch = 0
    MaximalIsrSuperset().sweep(found)


def test_maximal_isr_superset_of_the_elr_while_the_leader_may_commit():
    leadership = SimpleNamespace(maximal_isr=(1,), isr=(1,), min_isr=2)
    partition = a_replica(a_log(A), leadership=leadership, partition_epoch=4)
    found = evidence(a_host(1, partition))
    found.newest_image = an_image(replace(PARTITION, isr=(1,), eligible_leaders=(2,)))
    MaximalIsrSuperset().sweep(found)
    leadership.min_isr = 1
    with rejects("MaximalIsrSuperset"):
        MaximalIsrSuperset().sweep(found)
    partition.partition_epoch = 5
    MaximalIsrSuperset().sweep(found)


class Bounds:
    """A leader of epoch 1 that counts on node 2, its high watermark at 4, and the checker."""

    def __init__(self, *follower: BatchMark, spoke_as: int | None = 8, **more: Any) -> None:
        remotes = {2: SimpleNamespace(broker_epoch=spoke_as), 3: SimpleNamespace(broker_epoch=9)}
        leadership = SimpleNamespace(maximal_isr=(1, 2), remotes=remotes)
        self.partition = a_replica(a_log(A, B, high_watermark=4), leadership=leadership)
        self.follower = a_host(2, a_replica(a_log(*follower), **more))
        self._leader = a_host(1, self.partition)
        self.found = evidence(self._leader, self.follower)
        self.found.oracle.logs[PID].highest = 4
        self._checker = HighWatermarkBounds()

    def bring_back(self, **more: Any) -> None:
        """The follower's process drops its replica and gets a new one, which is empty."""
        empty = a_replica(a_log(), **more)
        self.follower.node.broker.replicas.partitions = {empty.topic_partition: empty}

    def advance(self, high_watermark: int) -> None:
        self.partition.log.high_watermark = high_watermark
        self._checker.on_leader(self.found, self._leader, PID, self.partition)


def test_high_watermark_bounds():
    bounds = Bounds(A)
    bounds.advance(4)
    bounds.advance(5)
    with rejects("HighWatermarkBounds"):
        bounds.advance(6)


def test_high_watermark_bounds_of_a_member_that_is_only_proposed():
    bounds = Bounds(A)
    bounds.found.newest_image = an_image(replace(PARTITION, isr=(1,)))
    bounds.advance(5)
    with rejects("HighWatermarkBounds"):
        bounds.advance(6)


def test_high_watermark_bounds_in_the_first_event_of_a_term():
    with rejects("HighWatermarkBounds"):
        Bounds(A).advance(6)
    elected_with_more = Bounds(A)
    elected_with_more.found.oracle.logs[PID].highest = 6
    elected_with_more.advance(6)


def test_high_watermark_bounds_of_a_member_that_is_silent():
    with rejects("HighWatermarkBounds"):
        Bounds(A, spoke_as=None).advance(5)


def test_high_watermark_bounds_of_a_member_in_a_former_epoch():
    Bounds(A, leader_epoch=2).advance(5)
    with rejects("HighWatermarkBounds"):
        Bounds(A, leader_epoch=0).advance(5)
    elected_again = Bounds(A)
    elected_again.advance(4)
    elected_again.partition.leader_epoch = 2
    elected_again.advance(5)


def test_high_watermark_bounds_of_a_member_with_another_history():
    Bounds(A, B).advance(6)
    with rejects("HighWatermarkBounds"):
        Bounds(A, B._replace(leader_epoch=0)).advance(6)


def test_high_watermark_bounds_of_a_process_that_never_said_so():
    """The one before did; this one may have lost it, unless it is in sync."""
    bounds = Bounds(A, spoke_as=5)
    with rejects("HighWatermarkBounds"):
        bounds.advance(6)
    bounds.found.newest_image = an_image(replace(PARTITION, isr=(1,)))
    bounds.advance(7)
    bounds.found.newest_image = an_image()
    bounds.follower.node.broker.replicas.broker_epoch = -1
    bounds.advance(8)


def test_high_watermark_bounds_of_a_replica_that_was_removed_and_brought_back():
    """The same process has it anew, and it is empty; the leader is behind and counts on the one
    before. Not so if the newest metadata has it in the ISR."""
    bounds = Bounds(A, B)
    bounds.advance(5)
    bounds.bring_back(leader_epoch=2)
    bounds.found.newest_image = an_image(replace(PARTITION, isr=(1,)))
    bounds.advance(6)
    bounds.found.newest_image = an_image()
    with rejects("HighWatermarkBounds"):
        bounds.advance(7)


def guarded(**leader: Any) -> tuple[Evidence, Any, Replica, Any]:
    """A leader of epoch 1 with ISR 1 and 2 and its high watermark at 4, and the guard."""
    leadership = SimpleNamespace(maximal_isr=(1, 2), isr=(1, 2), min_isr=2)
    log = a_log(A, B, high_watermark=4)
    values = {"leadership": leadership, "partition_epoch": 4, **leader}
    partition = a_replica(log, **values)
    host = a_host(1, partition)
    found = evidence(host)
    found.oracle.logs[PID].highest = 4
    return found, host, partition, MinIsrGuard()


def test_min_isr_guard():
    found, host, partition, checker = guarded()
    checker.on_leader(found, host, PID, partition)
    partition.log.high_watermark = 5
    checker.on_leader(found, host, PID, partition)
    partition.leadership.isr, partition.partition_epoch = (1,), 5
    checker.on_leader(found, host, PID, partition)
    partition.log.high_watermark = 6
    with rejects("MinIsrGuard"):
        checker.on_leader(found, host, PID, partition)


def test_min_isr_guard_counts_no_proposed_member():
    found, host, partition, checker = guarded(partition_epoch=5)
    partition.leadership.isr = (1,)
    checker.on_leader(found, host, PID, partition)
    partition.log.high_watermark = 5
    with rejects("MinIsrGuard"):
        checker.on_leader(found, host, PID, partition)


def test_min_isr_guard_asks_the_controller():
    found, host, partition, checker = guarded()
    found.newest_image = an_image(replace(PARTITION, isr=(1,)))
    checker.on_leader(found, host, PID, partition)
    partition.log.high_watermark = 5
    with rejects("MinIsrGuard"):
        checker.on_leader(found, host, PID, partition)


def test_min_isr_guard_looks_at_the_first_event_of_a_term():
    found, host, partition, checker = guarded(partition_epoch=5)
    partition.leadership.isr, partition.log.high_watermark = (1,), 5
    with rejects("MinIsrGuard"):
        checker.on_leader(found, host, PID, partition)


def test_min_isr_guard_lets_an_isr_change_behind_an_advance():
    found, host, partition, checker = guarded()
    checker.on_leader(found, host, PID, partition)
    partition.leadership.isr, partition.partition_epoch = (1,), 5
    partition.log.high_watermark = 5
    checker.on_leader(found, host, PID, partition)


@pytest.mark.parametrize(
    "change",
    [
        {"leader_epoch": 0},
        {"partition_epoch": 3},
        {"isr": (1,)},
        {"leader": 2, "partition_epoch": 5},
    ],
)
def test_epochs_rise(change):
    checker = EpochsRise()
    checker.on_newest(an_image())
    checker.on_newest(an_image(replace(PARTITION)))
    with rejects("EpochsRise"):
        checker.on_newest(an_image(replace(PARTITION, **change)))


def test_epochs_rise_as_they_should():
    checker = EpochsRise()
    checker.on_newest(an_image())
    moved = replace(PARTITION, leader=2, leader_epoch=2, partition_epoch=5)
    checker.on_newest(an_image(moved, a_broker(1, 7), a_broker(2, 9)))
    with rejects("EpochsRise"):
        checker.on_newest(an_image(moved, a_broker(1, 6), a_broker(2, 9)))


def test_no_two_brokers_share_an_epoch():
    EpochsRise().on_newest(an_image(PARTITION, a_broker(1, 7), a_broker(2, 8)))
    with rejects("EpochsRise"):
        EpochsRise().on_newest(an_image(PARTITION, a_broker(1, 7), a_broker(2, 7)))


def test_fenced_never_in_sync():
    others = (a_broker(1, 7), a_broker(2, 8))
    FencedNeverInSync().on_newest(an_image(PARTITION, *others, a_broker(3, 9, fenced=True)))
    with rejects("FencedNeverInSync"):
        FencedNeverInSync().on_newest(an_image(PARTITION, a_broker(2, 8, fenced=True)))


@pytest.mark.parametrize(
    "change",
    [
        {"isr": (1, 1)},
        {"eligible_leaders": (2,)},
        {"isr": (1, 4)},
        {"leader": 3},
        {"leader": -1},
        {"isr": ()},
        {"eligible_leaders": (3, 3)},
        {"eligible_leaders": (4,)},
        {"replicas": (1, 2, 3, 3)},
        {"adding_replicas": (5,)},
        {"removing_replicas": (5,)},
    ],
)
def test_valid_isr_and_elr(change):
    ValidIsrAndElr().on_newest(an_image())
    ValidIsrAndElr().on_newest(an_image(replace(PARTITION, eligible_leaders=(3,))))
    leaderless = replace(PARTITION, isr=(), leader=-1, eligible_leaders=(1,))
    ValidIsrAndElr().on_newest(an_image(leaderless))
    with rejects("ValidIsrAndElr"):
        ValidIsrAndElr().on_newest(an_image(replace(PARTITION, **change)))


def test_offsets_in_order():
    OffsetsInOrder().sweep(evidence(a_host(1, a_replica(a_log(A, B, high_watermark=7)))))
    with rejects("OffsetsInOrder"):
        OffsetsInOrder().sweep(evidence(a_host(1, a_replica(a_log(A, high_watermark=7)))))


def test_one_quorum_leader_per_epoch():
    checker = OneQuorumLeaderPerEpoch()
    checker.sweep(evidence(a_host(1, leads=3), a_host(2)))
    checker.sweep(evidence(a_host(1, leads=3), a_host(2, leads=4)))
    with rejects("OneQuorumLeaderPerEpoch"):
        checker.sweep(evidence(a_host(1), a_host(2, leads=3)))


def test_epoch_cache_matches_batches():
    fine = a_log(A, B, epoch_at=lambda offset: 0 if offset < 5 else 1)
    EpochCacheMatchesBatches().at_end(evidence(a_host(1, a_replica(fine))))
    wrong = a_log(A, B, epoch_at=lambda _: 0)
    with rejects("EpochCacheMatchesBatches"):
        EpochCacheMatchesBatches().at_end(evidence(a_host(1, a_replica(wrong))))
    first, second = A._replace(leader_epoch=1), B._replace(leader_epoch=0)
    falling = a_log(first, second, epoch_at=lambda offset: 1 if offset < 5 else 0)
    with rejects("EpochCacheMatchesBatches"):
        EpochCacheMatchesBatches().at_end(evidence(a_host(1, a_replica(falling))))


# Marks ----------------------------------------------------------------------------------------


def test_a_mark_is_an_event_and_its_reason_whatever_its_numbers():
    hit = MarksHit()
    quorum = {"epoch": 4, "leader": -1, "voted": -1, "log_end": 7, "high_watermark": 7}
    for reason, peer_id in (
        (RoleReason.LEADER_SILENT, 3),
        (RoleReason.LEADER_SILENT, 1),
        (RoleReason.REMOVED, 1),
    ):
        hit.note(BecameUnattached(cause=RoleCause(reason, peer_id), **quorum))
    assert list(hit.names) == ["kraft.BecameUnattached.LEADER_SILENT"]


def test_a_mark_of_an_event_counts_whatever_the_reason():
    hit = MarksHit()
    hit.note(DirectoryFailed(reason="no space left on device"))
    hit.note(TraceLine(Level.INFO, "disk", "on_storage_error", "stopping", "", {}))
    assert list(hit.names) == ["broker.DirectoryFailed"]


def test_marks_of_cases_that_are_not_reasons():
    hit = MarksHit()
    replica = {"partition": TopicPartition("t", 0), "leader_epoch": 3, "log_end": 7}
    for leader, was_leader in ((1, False), (1, True), (-1, False)):
        hit.note(FollowingBegan(leader=leader, was_leader=was_leader, high_watermark=5, **replica))
    assert [name.rpartition(".")[2] for name in hit.names] == [
        "FOLLOWS", "FOLLOWS_AFTER_LEADING", "WAITS",
    ]  # fmt: skip


def test_there_are_many_marks():
    assert len(MARKS) >= 100

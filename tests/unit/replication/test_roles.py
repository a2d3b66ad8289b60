"""Replicas come, change roles, and go; devices fail."""

import pytest

from tests.unit.log.harness import PARTITION, TOPIC_ID, LogBench
from tests.unit.replication.move_bench import IDS, MoveBench
from tidelog.env.trace import Trace, TraceList
from tidelog.log.directories import LogDirectories
from tidelog.log.values import LogFlush, OfflineDirectory
from tidelog.metadata.records import (
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from tidelog.model import LOST_DIRECTORY, NO_LEADER, ZERO_TOPIC_ID, ZERO_UUID, TopicPartition, Uuid
from tidelog.replication.messages import DirectoryOffline, LogDirFailed, SendAssignReplicas
from tidelog.replication.partition import Role
from tidelog.replication.replicas import Replicas
from tidelog.sim.replicas.cluster import CONFIG, Cluster
from tidelog.sim.replicas.feed import MetadataFeed

KEY = TopicPartition("orders", 0)
ELSEWHERE = Uuid(b"x" * 16)


@pytest.fixture
def cluster() -> Cluster:
    """Two brokers with one topic."""
    cluster = Cluster((1, 2))
    cluster.feed.create_topic("orders", (1, 2))
    cluster.run(10)
    return cluster


def roles(cluster: Cluster) -> list[Role | None]:
    """The role on each broker."""
    found: list[Role | None] = []
    for broker in cluster.brokers.values():
        partition = broker.replicas.partitions.get(KEY)
        found.append(None if partition is None else partition.role)
    return found


def test_a_leader_that_the_metadata_has_as_lost_follows_the_next_one_at_once(
    cluster: Cluster,
) -> None:
    """A report of damage that was repaired since may arrive late. For as many turns as the log took
    to be read, the replica led on in its former epoch, and acknowledged records beside the leader
    that was elected instead."""
    for _ in range(2500):
        cluster.produce(1, [b"a"])
    cluster.run(50)
    cluster.feed.write(
        PartitionChangeRecord(
            partition_id=0,
            topic_id=cluster.feed.image.topics_by_name["orders"].topic_id,
            isr=(2,),
            leader=2,
            directories=(LOST_DIRECTORY, ELSEWHERE),
        )
    )
    cluster.run(0)
    assert roles(cluster) == [Role.FOLLOWER, Role.LEADER]
    assert cluster.brokers[1].log("orders").log_end_offset == 2500


def test_a_moved_partition_leaves_and_takes_its_log_along(cluster: Cluster) -> None:
    """Broker 2 is not a replica any more."""
    cluster.feed.change("orders", replicas=(1,), isr=(1,))
    cluster.run(0)
    assert roles(cluster) == [Role.LEADER, None]
    assert KEY not in cluster.brokers[2].directory.logs


def test_old_metadata_changes_nothing(cluster: Cluster) -> None:
    """A delta that holds the same partition again."""
    partition = cluster.brokers[1].replicas.partitions[KEY]
    before = (partition.role, partition.leader_epoch, partition.partition_epoch)
    image = partition.image
    assert image is not None
    assert partition.objection_to(image) == "unchanged"
    cluster.feed.create_topic("others", (2,))
    cluster.run(0)
    assert (partition.role, partition.leader_epoch, partition.partition_epoch) == before
    assert partition.leadership is not None and partition.leadership.isr == (1, 2)


def test_a_log_that_lost_its_id_with_its_process_begins_anew(cluster: Cluster) -> None:
    """The topic is its own by name; whose records it has is not known: the leader sends its own."""
    cluster.produce(1, [b"a"])
    cluster.run(20)
    cluster.kill(1)
    broker = cluster.brokers[1]
    broker.disk.delete("orders-0/partition.metadata")
    broker.start()
    assert broker.log("orders").topic_id == ZERO_TOPIC_ID
    cluster.feed.forget(1)
    broker.replicas.broker_epoch = cluster.feed.register(1)
    cluster.run(0)
    assert broker.log("orders").topic_id == cluster.feed.image.topics_by_name["orders"].topic_id
    assert broker.log("orders").log_end_offset == 0


def test_a_device_that_takes_no_new_log(cluster: Cluster) -> None:
    """The node is notified, and the other partitions go on."""
    cluster.brokers[1].disk.capacity_bytes = 0
    cluster.feed.create_topic("another", (1,))
    cluster.run(0)
    assert any("another-0 log dir failed" in line for line in cluster.lines)
    assert roles(cluster)[0] is Role.LEADER


def test_a_device_that_fails_during_a_role_change(cluster: Cluster) -> None:
    """Cutting a log needs the device."""
    cluster.held.add((2, 1))
    cluster.produce(1, [b"a"], acks=1)
    cluster.run(5)
    cluster.brokers[1].log("orders").epochs.clear()
    cluster.brokers[1].disk.failing = "input/output error"
    cluster.feed.change("orders", leader=2, isr=(2,))
    cluster.run(0)
    assert roles(cluster) == [Role.OFFLINE, Role.LEADER]


def test_a_device_that_cannot_delete(cluster: Cluster) -> None:
    """The replica is gone all the same; the node is notified of the device."""
    cluster.brokers[1].disk.failing = "input/output error"
    cluster.feed.delete_topic("orders")
    cluster.run(0)
    assert roles(cluster) == [None, None]
    assert any("log dir failed" in line for line in cluster.lines)


def on_second_disk(cluster: Cluster) -> LogDirectories:
    """Another process of broker 1, whose replica is on the second of two disks."""
    broker, trace = cluster.brokers[1], Trace(TraceList())
    directories = LogDirectories({0: LogBench().directory, 1: broker.directory}, {})
    broker.replicas = Replicas(node_id=1, directories=directories, config=CONFIG, trace=trace)
    cluster.feed.forget(1)
    broker.replicas.broker_epoch = cluster.feed.register(1)
    cluster.feed.publish(1, broker.replicas, cluster.now)
    assert roles(cluster)[0] is Role.LEADER
    broker.replicas.take_outputs()
    return directories


def test_a_late_failure_of_the_first_disk_is_not_one_of_the_disk_that_a_log_has_moved_to(
    cluster: Cluster,
) -> None:
    """Goal: the node ends, as with any failure of that disk, and no sound disk goes offline."""
    directories, replicas = on_second_disk(cluster), cluster.brokers[1].replicas
    topic_id = cluster.feed.image.topics_by_name["orders"].topic_id
    replicas.on_flush_failed(LogFlush(KEY, topic_id, 1, True, 0), "input/output error", cluster.now)
    assert [each for each in replicas.take_outputs() if isinstance(each, LogDirFailed)]
    assert not directories.has_failed and roles(cluster)[0] is Role.LEADER


def test_two_failures_in_a_directory_in_one_turn_leave_the_node_in_service(
    cluster: Cluster,
) -> None:
    """Seed 56481946: a move failed first, then a replica beside it, and the node stopped."""
    broker = cluster.brokers[1]
    directories = on_second_disk(cluster)
    roles_of = broker.replicas._roles
    directories.fail(broker.directory, "the copy of a log cannot be written")
    roles_of.go_offline(broker.replicas.partitions[KEY], "input/output error")
    outputs = broker.replicas.take_outputs()
    assert roles(cluster)[0] is Role.OFFLINE
    assert [each.root for each in outputs if isinstance(each, DirectoryOffline)] == ["/b1"]
    assert not [each for each in outputs if isinstance(each, LogDirFailed)]


class Host:
    """A process on broker 1 that applies metadata of one partition, in a directory it names."""

    def __init__(
        self, bench: MoveBench, said: Uuid, *, leader: int = NO_LEADER, leader_epoch: int = 9
    ) -> None:
        directories, trace = bench.env.directories, Trace(bench.trace)
        self.feed, self.now = MetadataFeed(), bench.now
        self.replicas = Replicas(node_id=1, directories=directories, config=CONFIG, trace=trace)
        self.replicas.broker_epoch = self.feed.register(1)
        record = PartitionRecord(
            partition_id=PARTITION.partition,
            topic_id=TOPIC_ID,
            replicas=(1, 2),
            isr=() if leader == NO_LEADER else (leader,),
            leader=leader,
            leader_epoch=leader_epoch,
            partition_epoch=leader_epoch,
            directories=(said, ELSEWHERE),
        )
        # What it reports of the replica's place.
        self.reported: list[Uuid] = []
        self.follow(TopicRecord(name=PARTITION.topic, topic_id=TOPIC_ID), record)
        self.has_replica = PARTITION in self.replicas.partitions

    def follow(self, *records: MetadataRecord) -> None:
        """One turn, with new metadata."""
        self.feed.write(*records)
        self.feed.publish(1, self.replicas, self.now)
        self.replicas.end_tick(self.now)
        for output in self.replicas.take_outputs():
            if isinstance(output, SendAssignReplicas):
                self.reported += [place.directory_id for place in output.assignments]


def without_disk(bench: MoveBench, number: int) -> MoveBench:
    """The next process, which cannot open this disk."""
    bench.effects.take()
    bench.open(offline=(number,))
    root = bench.disks[number].root
    bench.env.directories.offline[number] = OfflineDirectory(root, ZERO_UUID, "no such device")
    return bench


@pytest.mark.parametrize("said", [ZERO_UUID, IDS[2], LOST_DIRECTORY, IDS[1]])
def test_no_empty_log_takes_the_place_of_one_on_a_missing_disk(said: Uuid) -> None:
    """Whatever the metadata says of the place: the report may not have been taken over, or a move
    was about to end there and its copy was damaged. Until another replica leads."""
    bench = MoveBench()
    bench.append(9)
    host = Host(without_disk(bench, 1), said)
    assert not host.has_replica and bench.names(0) == bench.names(2) == []
    # Where the controller counts on it, it is reported; else its place stays known.
    assert host.reported == ([LOST_DIRECTORY] if said in (ZERO_UUID, IDS[2]) else [])
    host = Host(without_disk(bench, 1), said, leader=2)
    assert host.has_replica == (said != IDS[1])


def test_a_new_replica_gets_its_log_though_a_disk_is_missing() -> None:
    host = Host(without_disk(MoveBench(), 1), ZERO_UUID, leader=1, leader_epoch=0)
    assert host.has_replica and len(host.reported) == 1 and host.reported[0] in (IDS[0], IDS[2])


def test_one_disk_that_is_left_is_reported() -> None:
    """Else nothing would show later on which disk the replica is."""
    bench = MoveBench()
    bench.disks = bench.disks[:2]
    host = Host(without_disk(bench, 1), ZERO_UUID, leader=2)
    assert host.has_replica and host.reported == [IDS[0]]


def test_a_disk_that_was_taken_out_leaves_room_for_a_new_log() -> None:
    """An operator has decided so."""
    bench = without_disk(MoveBench(), 1)
    bench.env.directories.offline.clear()
    assert Host(bench, IDS[1]).has_replica


def test_a_former_log_is_not_taken_for_the_replica_while_its_disk_is_missing() -> None:
    """A copy took a log's place, and records were acknowledged, when its disk hung in the flush
    behind that and died. The log that the move has left lacks them."""
    bench = MoveBench()
    bench.append(5)
    bench.request(2)
    while bench.place == 1:
        bench.turn()
        bench.tick()
    bench.append(7)
    assert bench.said == IDS[2] and bench.names(1) == [str(PARTITION)]
    host = Host(without_disk(bench, 2), IDS[2])
    assert bench.env.directories.logs[PARTITION].log_end_offset == 5
    assert not host.has_replica and host.reported == []
    # A leader has all of it, or an operator has taken the disk out.
    assert Host(without_disk(bench, 2), IDS[2], leader=2).reported == [IDS[1]]
    without_disk(bench, 2).env.directories.offline.clear()
    assert Host(bench, IDS[2]).reported == [IDS[1]]
    # The disk is back.
    bench.restart()
    assert bench.place == 2 and bench.log.log_end_offset == 12


def test_a_copy_is_not_reported_once_the_disk_of_its_log_is_dead() -> None:
    """Goal: the controller does not count a replica among those of another disk, where it is
    not."""
    bench = MoveBench()
    bench.append(5)
    host = Host(bench, IDS[1], leader=1)
    host.replicas.moves.request(PARTITION, bench.disks[2].root, host.now)
    host.replicas._quarantine.reports.report(PARTITION, TOPIC_ID, IDS[2])
    directories = bench.env.directories
    directories.fail(directories.online[1], "input/output error")
    host.follow()
    assert host.reported == []


def test_a_replica_is_lost_although_a_late_report_places_it_on_another_disk() -> None:
    """Goal: it does not lead for ever on paper. The disk of the log dies while the report is under
    way that says where its complete copy is: the controller takes that over, and counts the replica
    no more among those of the dead disk."""
    bench = MoveBench()
    bench.append(5)
    host = Host(bench, IDS[1], leader=1)
    assert host.has_replica
    directories = bench.env.directories
    directories.fail(directories.online[1], "input/output error")
    number = PARTITION.partition
    host.follow(PartitionChangeRecord(partition_id=number, topic_id=TOPIC_ID, isr=(1, 2)))
    assert host.reported == []
    moved = PartitionChangeRecord(
        partition_id=number, topic_id=TOPIC_ID, directories=(IDS[2], ELSEWHERE)
    )
    host.follow(moved)
    assert host.reported == [LOST_DIRECTORY]

"""A bit flips on the disk of a real node while it is down: no client reads it; it is repaired.

Librdkafka writes and reads; segments are small, so that the damage lies in one that is sealed.
"""

import time
from pathlib import Path

import pytest

from tests.process.clients import TOPIC, BackgroundProducer, ConfluentKafka, assert_nothing_lost
from tidelog.client import AdminClient
from tidelog.model import METADATA_PARTITION, OFFSETS_TOPIC, TopicPartition
from tidelog.records.batch import iter_headers
from tidelog.rsm.placement import partition_of
from tidelog.testing import LocalCluster
from tidelog.testing.waiting import wait_until

pytestmark = pytest.mark.process

RECORD = b"d" * 2_000
TP = TopicPartition(TOPIC, 0)
PARTITIONS = 5
"""Of the offsets topic, in the profile of tests."""


class LargeRecords(ConfluentKafka):
    """Fills a segment of one megabyte in no time."""

    def produce(self, bootstrap, answers, go_on):
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 2})
        index = 0
        while go_on():
            value = b"c%d " % index + RECORD
            index += 1

            def report(error, message, value=value):
                if error is None:
                    answers.ack(value, message.offset())
                else:
                    answers.fail(value, str(error))

            producer.produce(TOPIC, value, partition=0, on_delivery=report)
            producer.poll(0.002)
        assert producer.flush(30) == 0


def segments(cluster: LocalCluster, node_id: int) -> list[Path]:
    """The log files of the node's replica, oldest first."""
    found = sorted(Path(cluster.node(node_id).data_dir).rglob(f"{TOPIC}-0/*.log"))
    assert found, f"node {node_id} has no replica"
    return found


def content(cluster: LocalCluster, node_id: int) -> bytes:
    """All bytes of the replica."""
    return b"".join(path.read_bytes() for path in segments(cluster, node_id))


def elect_preferred(cluster: LocalCluster, topic: str, numbers: list[int]) -> None:
    """Has the first replicas lead again, where they may."""
    from confluent_kafka import ElectionType, TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    wanted = [TopicPartition(topic, number) for number in numbers]
    admin.elect_leaders(ElectionType.PREFERRED, wanted).result(30)


def prefer_leader(cluster: LocalCluster, node_id: int) -> None:
    """Has the first replica lead again."""
    elect_preferred(cluster, TOPIC, [0])
    assert cluster.wait_for_leader(TOPIC, 0) == node_id


def test_a_flipped_bit_in_a_sealed_segment_is_never_read_and_repaired(tmp_path):
    client = LargeRecords()
    with LocalCluster(brokers=3, data_dir=tmp_path / "cluster") as cluster:
        cluster.start()
        cluster.create_topic(
            TOPIC,
            partitions=1,
            replication_factor=3,
            configs={"min.insync.replicas": "2", "segment.bytes": "1048576"},
        )
        replicas = cluster.describe_topic(TOPIC).partitions[0].replicas
        cluster.wait_for_isr(TOPIC, 0, replicas)
        producer = BackgroundProducer(client, cluster.bootstrap_servers)
        producer.wait_for_more(2_000)
        answers = producer.finish()
        leader = replicas[0]
        assert cluster.wait_for_leader(TOPIC, 0) == leader
        cluster.terminate(leader)
        files = segments(cluster, leader)
        assert len(files) >= 3
        damaged = bytearray(files[1].read_bytes())
        damaged[len(damaged) // 2] ^= 16
        files[1].write_bytes(damaged)
        cluster.start_node(leader)
        cluster.wait_for_isr(TOPIC, 0, replicas)
        prefer_leader(cluster, leader)
        count = max(answers.acknowledged.values()) + 1
        assert_nothing_lost(answers, client.read(cluster.bootstrap_servers, count))
        cluster.wait_for_isr(TOPIC, 0, replicas)
        deadline = time.monotonic() + 20
        while len({content(cluster, node_id) for node_id in replicas}) > 1:
            assert time.monotonic() < deadline, "the replicas are not equal again"
            cluster.wait_for_isr(TOPIC, 0, replicas)
        assert bytes(damaged) != segments(cluster, leader)[1].read_bytes()


def flip_in_the_middle(file: Path) -> bytes:
    """Flips a bit in the last record of a batch with others around it; what is there then."""
    content = bytearray(file.read_bytes())
    batches = list(iter_headers(bytes(content)))
    position, header = batches[len(batches) // 2]
    content[position + header.size_bytes - 2] ^= 16
    file.write_bytes(content)
    return bytes(content)


def test_a_flipped_bit_in_the_offsets_of_a_group_is_never_an_offset(tmp_path):
    """The coordinator of that partition is gone until another replica leads, those of other groups
    are not. No answer is made of what is left of the log, and the replica is repaired."""
    groups = {partition_of(name, PARTITIONS): name for name in map(str, range(40))}
    with LocalCluster(brokers=3, data_dir=tmp_path / "cluster") as cluster:
        cluster.create_topic(TOPIC, partitions=1, replication_factor=3)
        admin = AdminClient(cluster.bootstrap_servers.split(","), timeout_s=30)
        for group in groups.values():
            for offset in range(5):
                admin.groups.reset(group, {TP: offset})
        described = cluster.describe_topic(OFFSETS_TOPIC).partitions
        number, replicas = described[0].partition, described[0].replicas
        leader = replicas[0]
        cluster.terminate(leader)
        pattern = f"{OFFSETS_TOPIC}-{number}/*.log"
        files = [next(Path(cluster.node(each).data_dir).rglob(pattern)) for each in replicas]
        damaged = flip_in_the_middle(files[0])
        cluster.start_node(leader)
        cluster.wait_for_isr(OFFSETS_TOPIC, number, replicas)
        elect_preferred(cluster, OFFSETS_TOPIC, [each.partition for each in described])
        for _ in range(10):
            for group in groups.values():
                assert admin.groups.offsets(group) == {TP: 4}
        admin.close()
        cluster.wait_for_isr(OFFSETS_TOPIC, number, replicas)
        wait_until(lambda: len({each.read_bytes() for each in files}) == 1, 20, "equal replicas")
        assert damaged != files[0].read_bytes()
        log = cluster.node(leader).log_file.read_text()
        assert f"{OFFSETS_TOPIC}-{number} quarantine: out of service" in log


def test_a_flipped_bit_in_the_metadata_of_a_killed_voter_is_not_taken_for_a_torn_end(tmp_path):
    """FlushedEndOutlivesKill. No checkpoint covers the record yet, and it was flushed: the voter
    says so, sets its log aside, and gets everything back from the others; then it counts again."""
    with LocalCluster(brokers=3, data_dir=tmp_path / "cluster") as cluster:
        cluster.create_topic(TOPIC, partitions=12, replication_factor=3)
        node = cluster.node(3)
        directory = Path(node.data_dir) / str(METADATA_PARTITION)
        (log,) = directory.glob("*.log")
        cluster.kill(3)
        damaged = flip_in_the_middle(log)
        for _ in range(2):
            cluster.start_node(3)
            for partition in range(12):
                cluster.wait_for_isr(TOPIC, partition, [1, 2, 3])
            wait_until(lambda: damaged != log.read_bytes(), 20, "another log")
            assert node.log_file.read_text().count(f"{METADATA_PARTITION} quarantine") == 1
            cluster.kill(3)
        assert log.with_name(log.name + ".corrupt").read_bytes() == damaged

"""A bit flips on the disk of a real node while it is down: no client reads it; it is repaired.

Librdkafka writes and reads; segments are small, so that the damage lies in one that is sealed.
"""

import time
from pathlib import Path

import pytest

from tests.process.clients import TOPIC, BackgroundProducer, ConfluentKafka, assert_nothing_lost
from tidelog.testing import LocalCluster

pytestmark = pytest.mark.process

RECORD = b"d" * 2_000


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


def prefer_leader(cluster: LocalCluster, node_id: int) -> None:
    """Has the first replica lead again."""
    from confluent_kafka import ElectionType, TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(TOPIC, 0)]).result(30)
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

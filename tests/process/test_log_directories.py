"""A node with two log directories: an administrator's client moves a replica, one is missing."""

import shutil
from pathlib import Path
from uuid import uuid4

import pytest

from tidelog.testing import LocalCluster
from tidelog.testing.waiting import wait_until

pytestmark = pytest.mark.process

PARTITIONS = 6
RECORDS = 300


def cluster_on(roots: list[Path]) -> LocalCluster:
    """A node with these log directories."""
    config = {"log.dirs": ",".join(map(str, roots))}
    return LocalCluster(brokers=1, data_dir=roots[0].parent / "cluster", config=config)


def test_partitions_lie_on_both_disks_and_one_may_be_missing(tmp_path) -> None:
    from confluent_kafka import Producer
    from kafka.admin import KafkaAdminClient

    roots = [tmp_path / "a", tmp_path / "b"]
    with cluster_on(roots) as cluster:
        cluster.create_topic("orders", partitions=PARTITIONS, replication_factor=1)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
        for number in range(PARTITIONS):
            producer.produce("orders", b"value", partition=number)
        assert producer.flush(30) == 0

        def described() -> dict[str, tuple[int, int]]:
            admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
            found = {}
            (broker,) = admin.describe_log_dirs()
            for row in broker["log_dirs"]:
                topics = row["topics"]
                sizes = [one["partition_size"] for topic in topics for one in topic["partitions"]]
                assert all(size > 0 for size in sizes)
                found[row["log_dir"]] = row["error_code"], len(sizes)
            admin.close()
            return found

        assert described() == {str(root): (0, PARTITIONS // 2) for root in roots}
        cluster.terminate(1)
        # A file where the directory was: the disk cannot be mounted there.
        roots[1].rename(tmp_path / "unmounted")
        roots[1].write_text("")
        cluster.start_node(1)
        cluster.wait_until_ready()
        storage_error = 56
        assert described() == {
            str(roots[0]): (0, PARTITIONS // 2),
            str(roots[1]): (storage_error, 0),
        }
        cluster.terminate(1)
        roots[1].unlink()
        shutil.move(tmp_path / "unmounted", roots[1])
        cluster.start_node(1)
        cluster.wait_until_ready()
        for number in range(PARTITIONS):
            producer.produce("orders", b"value", partition=number)
        assert producer.flush(30) == 0


def throttle_moves(cluster: LocalCluster, bytes_per_second: int) -> None:
    """How fast replicas move between the directories of the node."""
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

    name, set_ = "replica.alter.log.dirs.io.max.bytes.per.second", AlterConfigOpType.SET
    entry = ConfigEntry(name, str(bytes_per_second), incremental_operation=set_)
    broker = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.incremental_alter_configs([broker])[broker].result(30)


def read_numbers(cluster: LocalCluster, count: int) -> list[int]:
    """The first six bytes of the first `count` values of `orders-0`."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
    consumer.assign([TopicPartition("orders", 0, 0)])
    read: list[int] = []
    while len(read) < count:
        read += [int(each.value()[:6]) for each in consumer.consume(500, 10)]
    consumer.close()
    return read


def test_a_replica_that_moves_goes_on_after_a_kill(tmp_path) -> None:
    """The throttle lets a third of the log pass before the kill, and all of it afterwards."""
    from confluent_kafka import Producer
    from kafka.admin import KafkaAdminClient

    roots = [tmp_path / "a", tmp_path / "b"]
    with cluster_on(roots) as cluster:
        cluster.create_topic("orders", partitions=1, replication_factor=1)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
        for number in range(RECORDS):
            producer.produce("orders", b"%06d" % number + b"v" * 10_000, partition=0)
            producer.poll(0)
        assert producer.flush(30) == 0

        def described() -> dict[str, tuple[bool, int]]:
            admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
            (broker,) = admin.describe_log_dirs()
            admin.close()
            return {
                row["log_dir"]: (one["is_future_key"], one["offset_lag"])
                for row in broker["log_dirs"]
                for topic in row["topics"]
                for one in topic["partitions"]
            }

        ((source, state),) = described().items()
        (target,) = {str(root) for root in roots} - {source}
        assert state == (False, 0)
        throttle_moves(cluster, 1)
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        (code,) = admin.alter_replica_log_dirs({("orders", 0, 1): target}).values()
        admin.close()
        assert code.errno == 0
        wait_until(lambda: described()[target][1] < RECORDS, 30, "copied slice")
        copied = described()
        assert copied[source] == (False, 0)
        assert copied[target][0] and copied[target][1] > 0
        cluster.kill(1)
        cluster.start_node(1)
        cluster.wait_until_ready()
        throttle_moves(cluster, 1 << 40)
        wait_until(lambda: described() == {target: (False, 0)}, 30, "end of the move")
        for number in range(RECORDS, RECORDS + 10):
            producer.produce("orders", b"%06d" % number, partition=0)
        assert producer.flush(30) == 0
        assert read_numbers(cluster, RECORDS + 10) == list(range(RECORDS + 10))


def test_an_empty_replica_moves_and_takes_its_first_record(tmp_path) -> None:
    """Its file is made by that record, in a directory that has another name by then."""
    from confluent_kafka import Producer
    from kafka.admin import KafkaAdminClient

    roots = [tmp_path / "a", tmp_path / "b"]
    with cluster_on(roots) as cluster:
        cluster.create_topic("orders", partitions=1, replication_factor=1)
        (source,) = (root for root in roots if (root / "orders-0").exists())
        (target,) = set(roots) - {source}
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        (code,) = admin.alter_replica_log_dirs({("orders", 0, 1): str(target)}).values()
        admin.close()
        assert code.errno == 0
        wait_until(lambda: (target / "orders-0").exists(), 30, "end of the move")
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
        producer.produce("orders", b"%06d" % 0, partition=0)
        assert producer.flush(30) == 0
        assert read_numbers(cluster, 1) == [0]
        assert list(target.glob("orders-0/*.log"))


def offline_replicas(cluster: LocalCluster) -> tuple[int, ...]:
    """Those of `orders-0`. The broker of one may be in service, without its disk."""
    return cluster.describe_topic("orders").partitions[0].offline


def test_a_lost_replica_waits_for_its_disk(tmp_path) -> None:
    """The disk with the log dies when the controller counts it among those of the other disk, where
    only the copy is. An empty log in its place would be elected, for nothing else is left."""
    from confluent_kafka import Producer

    roots = [tmp_path / "a", tmp_path / "b"]
    with cluster_on(roots) as cluster:
        cluster.create_topic("orders", partitions=1, replication_factor=1)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
        for number in range(RECORDS):
            producer.produce("orders", b"%06d" % number, partition=0)
        assert producer.flush(30) == 0
        cluster.terminate(1)
        (target,) = (root for root in roots if (root / "orders-0").exists())
        (source,) = set(roots) - {target}
        shutil.copytree(target / "orders-0", source / "orders-0")
        (target / "orders-0").rename(target / f"orders-0.{uuid4().hex}-future")
        source.rename(tmp_path / "unmounted")
        source.write_text("")
        cluster.start_node(1)
        cluster.wait_until_ready()
        wait_until(lambda: offline_replicas(cluster) == (1,), 30, "lost replica")
        # To lead this one the node applies metadata behind those that call the other lost.
        cluster.create_topic("payments", partitions=1, replication_factor=1)
        producer.produce("payments", b"value", partition=0)
        assert producer.flush(30) == 0
        assert not (target / "orders-0").exists()
        cluster.terminate(1)
        source.unlink()
        shutil.move(tmp_path / "unmounted", source)
        cluster.start_node(1)
        cluster.wait_until_ready()
        assert read_numbers(cluster, RECORDS) == list(range(RECORDS))

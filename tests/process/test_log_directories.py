"""A node with two log directories, as an administrator's client sees it, and starts without one."""

import shutil

import pytest

from tidelog.testing import LocalCluster

pytestmark = pytest.mark.process

PARTITIONS = 6


def test_partitions_lie_on_both_disks_and_one_may_be_missing(tmp_path) -> None:
    from confluent_kafka import Producer
    from kafka.admin import KafkaAdminClient

    roots = [tmp_path / "a", tmp_path / "b"]
    config = {"log.dirs": ",".join(map(str, roots))}
    with LocalCluster(brokers=1, data_dir=tmp_path / "cluster", config=config) as cluster:
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

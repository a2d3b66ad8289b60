"""Records are deleted by librdkafka and by the command line."""

import pytest

from tests.process.test_command_line import report
from tidelog.testing import LocalCluster

pytestmark = pytest.mark.process

TOPIC = "orders"
RECORDS = 100


def test_librdkafka_deletes_records_and_reads_on_behind_them(tmp_path) -> None:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient

    with LocalCluster(brokers=3, data_dir=tmp_path / "cluster") as cluster:
        cluster.create_topic(
            TOPIC, partitions=1, replication_factor=3, configs={"min.insync.replicas": "2"}
        )
        servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2}
        producer = Producer(servers | {"acks": "all"})
        for index in range(RECORDS):
            producer.produce(TOPIC, b"%d" % index, partition=0)
        assert producer.flush(30) == 0
        admin = AdminClient(servers)

        def delete(before: int) -> int:
            futures = admin.delete_records([TopicPartition(TOPIC, 0, before)])
            (future,) = futures.values()
            return future.result(30).low_watermark

        assert delete(40) == 40
        with pytest.raises(KafkaException) as refused:
            delete(RECORDS + 1)
        assert refused.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE

        consumer = Consumer(
            servers
            | {
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
            }
        )
        assert consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=30) == (40, RECORDS)
        consumer.assign([TopicPartition(TOPIC, 0, 7)])
        values = []
        while (message := consumer.poll(30)) is not None and message.error() is None:
            values.append(message.value())
        consumer.close()
        assert values == [b"%d" % index for index in range(40, RECORDS)]

        deleted = report(
            *("records", "delete", "--data-dir", tmp_path / "cluster", "--topic", TOPIC),
            *("--partition", 0, "--before-offset", -1),
        )
        assert deleted == {"topic": TOPIC, "partition": 0, "low_watermark": RECORDS}
        described = cluster.describe_topic(TOPIC, replica_logs=True)
        logs = described.partitions[0].replica_logs
        assert [log.log_start_offset for log in logs] == [RECORDS] * 3
        assert delete(-1) == RECORDS

"""Transactions of real clients: readers of committed data see what was committed, once.

The coordinator of the transactional id is killed in the middle of a transaction, and the client
goes on with the next one.
"""

import asyncio

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tidelog.model import TRANSACTIONS_TOPIC
from tidelog.rsm.placement import partition_of
from tidelog.testing import LocalCluster

pytestmark = pytest.mark.process

TOPIC, PARTITIONS, RECORDS = "orders", 3, 10
PATIENCE_S = 60
COORDINATORS = 5
"""Partitions of the transactions topic in the profile of tests."""


def read_committed(bootstrap: str, count: int) -> list[str]:
    """The first records that are committed, and whatever else is there."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "log_level": 2,
        }
    )
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    found: list[str] = []
    ended: set[int] = set()
    while len(found) < count or len(ended) < PARTITIONS:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, f"{len(found)} of {count} records"
        if message.error():
            ended.add(message.partition())
        else:
            ended.discard(message.partition())
            found.append(message.value().decode())
    consumer.close()
    return found


def values(name: str) -> list[str]:
    return [f"{name}-{index}" for index in range(RECORDS)]


def test_librdkafka_through_the_death_of_its_coordinator(tmp_path):
    with LocalCluster(brokers=3, data_dir=tmp_path / "cluster") as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        bootstrap = cluster.bootstrap_servers
        settings = {
            "bootstrap.servers": bootstrap,
            "transactional.id": "x",
            "transaction.timeout.ms": 20_000,
            "log_level": 2,
        }
        producer = Producer(settings)
        producer.init_transactions(PATIENCE_S)
        expected: list[str] = []
        for name, commits, kills in (
            ("first", True, False),
            ("aborted", False, False),
            ("killed", True, True),
            ("last", True, False),
        ):
            producer.begin_transaction()
            for index, value in enumerate(values(name)):
                producer.produce(TOPIC, value, partition=index % PARTITIONS)
            assert producer.flush(PATIENCE_S) == 0
            if kills:
                number = partition_of("x", COORDINATORS)
                coordinator = cluster.wait_for_leader(TRANSACTIONS_TOPIC, number)
                cluster.kill(coordinator)
            if commits:
                producer.commit_transaction(PATIENCE_S)
                expected += values(name)
            else:
                producer.abort_transaction(PATIENCE_S)
            if kills:
                cluster.start_node(coordinator)
        # A zombie: its next transaction is another one's, and it may not write.
        producer.begin_transaction()
        producer.produce(TOPIC, "zombie-0", partition=0)
        assert producer.flush(PATIENCE_S) == 0
        Producer(settings).init_transactions(PATIENCE_S)
        with pytest.raises(KafkaException):
            producer.commit_transaction(PATIENCE_S)
        assert sorted(read_committed(bootstrap, len(expected))) == sorted(expected)


def test_aiokafka(tmp_path):
    from aiokafka import AIOKafkaProducer

    async def produce(bootstrap: str) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="y")
        await producer.start()
        for name, commits in (("first", True), ("aborted", False), ("last", True)):
            await producer.begin_transaction()
            for index, value in enumerate(values(name)):
                await producer.send(TOPIC, value.encode(), partition=index % PARTITIONS)
            await (producer.commit_transaction() if commits else producer.abort_transaction())
        await producer.stop()

    with LocalCluster(brokers=1, data_dir=tmp_path / "cluster") as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS)
        asyncio.run(asyncio.wait_for(produce(cluster.bootstrap_servers), PATIENCE_S))
        expected = values("first") + values("last")
        assert sorted(read_committed(cluster.bootstrap_servers, len(expected))) == sorted(expected)

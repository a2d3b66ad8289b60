"""Exactly once: a copy in transactions equals its source, though leaders and coordinators die.

One process consumes, produces and commits its offsets in one transaction, again and again. A reader
of committed data gets each record once, in the order of its partition. And: what is aborted is not
read, a zombie is fenced, a transaction that hangs is found and aborted, and one that a client left
when it was killed is aborted at its timeout.
"""

import asyncio
import subprocess
import sys
import threading
import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.hanging import ALLOWED, begin_without_coordinator
from tests.process.test_command_line import report
from tidelog.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tidelog.rsm.placement import partition_of
from tidelog.testing import LocalCluster

pytestmark = pytest.mark.process

SOURCE, COPY, GROUP, PARTITIONS, RECORDS = "source", "copy", "copiers", 2, 900
IDS = {"transactional.id": "copier", "transaction.timeout.ms": 10_000}
PATIENCE_S = 60
ABANDONED_MS = 4_000
"""The timeout of a transaction that is left open: long enough to be seen before."""
PER_TRANSACTION = 50
IDLE = {"connections.max.idle.ms": "3000"}
"""librdkafka may miss that a group's coordinator is there again, and then waits for the next event
of any connection: once that came after ten minutes, when a node closed one that was idle."""


def settings(cluster, **more):
    quiet = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2}
    return {**quiet, **{name.replace("_", "."): value for name, value in more.items()}}


def reader_of(cluster, group):
    return Consumer(
        settings(
            cluster,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
    )


def fill(cluster):
    producer = Producer(settings(cluster, acks="all"))
    for index in range(RECORDS):
        producer.produce(SOURCE, b"%d" % index, partition=index % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0


def copy(cluster, until):
    """Copies until everything is copied; how often it had to begin again."""
    producer = Producer(settings(cluster) | IDS)
    producer.init_transactions(PATIENCE_S)
    consumer = reader_of(cluster, GROUP)
    partitions = [TopicPartition(SOURCE, number) for number in range(PARTITIONS)]
    retries = copied = 0

    def go_back():
        for each in consumer.committed(partitions, timeout=PATIENCE_S):
            place = TopicPartition(SOURCE, each.partition, max(each.offset, 0))
            consumer.incremental_unassign([place])
            consumer.incremental_assign([place])

    consumer.assign([TopicPartition(SOURCE, number, 0) for number in range(PARTITIONS)])
    while copied < RECORDS:
        assert time.monotonic() < until, f"{copied} records copied"
        messages = [each for each in consumer.consume(PER_TRANSACTION, 1.0) if not each.error()]
        if not messages:
            continue
        try:
            producer.begin_transaction()
            for each in messages:
                producer.produce(COPY, each.value(), partition=each.partition())
            metadata = consumer.consumer_group_metadata()
            places = consumer.position(partitions)
            producer.send_offsets_to_transaction(places, metadata, PATIENCE_S)
            producer.commit_transaction(PATIENCE_S)
            copied += len(messages)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(PATIENCE_S)
            retries += 1
            go_back()
    consumer.close()
    return retries


def read_back(cluster):
    """The values of each partition, in order."""
    consumer = reader_of(cluster, "checker")
    consumer.assign([TopicPartition(COPY, number, 0) for number in range(PARTITIONS)])
    found = {number: [] for number in range(PARTITIONS)}
    deadline = time.monotonic() + PATIENCE_S
    while sum(map(len, found.values())) < RECORDS and time.monotonic() < deadline:
        for each in consumer.consume(500, 1.0):
            if not each.error():
                found[each.partition()].append(int(each.value()))
    found[0] += [int(each.value()) for each in consumer.consume(1, 0.5) if not each.error()]
    consumer.close()
    return found


def test_a_copy_is_exact_though_leaders_and_coordinators_die(tmp_path):
    with LocalCluster(brokers=3, data_dir=tmp_path / "cluster", config=IDLE) as cluster:
        for topic in (SOURCE, COPY):
            cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
        fill(cluster)
        over = threading.Event()

        def strike():
            victims = [(COPY, 0), (TRANSACTIONS_TOPIC, partition_of(IDS["transactional.id"], 5))]
            for topic, number in [*victims, (OFFSETS_TOPIC, partition_of(GROUP, 5))]:
                if over.wait(0.7):
                    return
                leader = cluster.wait_for_leader(topic, number)
                cluster.kill(leader)
                cluster.wait_for_leader(topic, number, exclude=[leader])
                cluster.start_node(leader)

        thread = threading.Thread(target=strike)
        thread.start()
        try:
            copy(cluster, time.monotonic() + PATIENCE_S)
        finally:
            over.set()
            thread.join()
        assert read_back(cluster) == {
            number: list(range(number, RECORDS, PARTITIONS)) for number in range(PARTITIONS)
        }


# Zombies, and transactions that hang ----------------------------------------------------------


def committed_values(cluster, count):
    """So many committed values of the first partition, and whatever else is there."""
    consumer = reader_of(cluster, "readers")
    consumer.assign([TopicPartition(COPY, 0, 0)])
    found, deadline = [], time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        found += [each.value().decode() for each in consumer.consume(50, 0.5) if not each.error()]
    found += [each.value().decode() for each in consumer.consume(50, 0.5) if not each.error()]
    consumer.close()
    return found


def produce_in_transactions(cluster):
    """One that commits and one that aborts, and a zombie's."""
    fast = settings(cluster) | IDS
    producer = Producer(fast)
    producer.init_transactions(PATIENCE_S)
    for value, end in (
        ("good", producer.commit_transaction),
        ("aborted", producer.abort_transaction),
    ):
        producer.begin_transaction()
        producer.produce(COPY, value, partition=0)
        assert producer.flush(PATIENCE_S) == 0
        end(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(COPY, "zombie", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    Producer(fast).init_transactions(PATIENCE_S)
    with pytest.raises(KafkaException):
        producer.commit_transaction(PATIENCE_S)


async def produce_with_aiokafka(bootstrap):
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="y")
    await producer.start()
    for value, end in (
        (b"aio", producer.commit_transaction),
        (b"aio aborted", producer.abort_transaction),
    ):
        await producer.begin_transaction()
        await producer.send(COPY, value, partition=0)
        await end()
    await producer.stop()


def test_what_is_aborted_or_a_zombies_or_hangs_is_not_read(tmp_path):
    with LocalCluster(brokers=1, data_dir=tmp_path / "cluster", config=ALLOWED) as cluster:
        cluster.create_topic(COPY, partitions=1)
        where = ("--bootstrap-server", cluster.bootstrap_servers)
        produce_in_transactions(cluster)
        asyncio.run(produce_with_aiokafka(cluster.bootstrap_servers))
        assert committed_values(cluster, 2) == ["good", "aio"]
        start = begin_without_coordinator(cluster, COPY)
        producer = Producer(settings(cluster))
        producer.produce(COPY, "late", partition=0)
        assert producer.flush(PATIENCE_S) == 0
        assert committed_values(cluster, 2) == ["good", "aio"]
        (found,) = report("transactions", "find-hanging", "--older-than", 0, *where, code=1)
        assert (found["topic"], found["start_offset"]) == (COPY, start)
        place = ("--topic", COPY, "--partition", 0, "--start-offset", start)
        report("transactions", "abort", *place, *where)
        assert report("transactions", "find-hanging", "--older-than", 0, *where) == []
        assert committed_values(cluster, 3) == ["good", "aio", "late"]


def test_readers_go_on_when_a_killed_client_has_left_a_transaction_open(tmp_path):
    """Its coordinator aborts the transaction at its timeout; nothing of it is read."""
    with LocalCluster(brokers=3, data_dir=tmp_path / "cluster") as cluster:
        cluster.create_topic(COPY, partitions=1, replication_factor=3)
        command = [sys.executable, "-m", "tests.process.abandoned_transaction"]
        client = subprocess.Popen(
            [*command, cluster.bootstrap_servers, COPY, str(ABANDONED_MS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert client.stdout is not None and client.stdout.readline() == "begun\n"
        producer = Producer(settings(cluster))
        producer.produce(COPY, "late", partition=0)
        assert producer.flush(PATIENCE_S) == 0
        where = ("--bootstrap-server", cluster.bootstrap_servers)
        (listed,) = report("transactions", "list", *where)
        assert (listed["transactional_id"], listed["state"]) == ("abandoned", "Ongoing")
        client.kill()
        client.wait()
        assert committed_values(cluster, 1) == ["late"]
        (listed,) = report("transactions", "list", *where)
        assert listed["state"] == "CompleteAbort"

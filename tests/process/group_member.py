"""One member of a group, as a process of its own: reads, commits what it has read, and reports.

    python -m tests.process.group_member CLIENT BOOTSTRAP GROUP TOPIC

A line of its output is a list: the values that it has read before a commit that succeeded; or an
object: the partitions that it has got or is about to give back, with the time. It ends, and leaves
the group, when its input is closed.
"""

import asyncio
import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

SESSION_TIMEOUT_MS = 6000
"""One whose process gets no CPU for some seconds is a member still."""
HEARTBEAT_MS = 300


def report(values: list[bytes]) -> None:
    print(json.dumps([value.decode() for value in values]), flush=True)


def report_owned(word: str, partitions: Iterable[Any]) -> None:
    """`got` or `gave`: after the one and before the other no other member may have them."""
    numbers = sorted(each.partition for each in partitions)
    print(json.dumps({"at": time.monotonic(), word: numbers}), flush=True)


class Reporting:
    """What the rebalance listeners of kafka-python and aiokafka do alike."""

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        report_owned("got", assigned)

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        report_owned("gave", revoked)

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        report_owned("gave", lost)


CLASSIC = {
    "session.timeout.ms": SESSION_TIMEOUT_MS,
    "heartbeat.interval.ms": HEARTBEAT_MS,
    "partition.assignment.strategy": "cooperative-sticky",
}


def run_confluent_kafka(
    bootstrap: str,
    group: str,
    topic: str,
    go_on: Callable[[], bool],
    protocol: Mapping[str, object] = CLASSIC,
) -> None:
    from confluent_kafka import Consumer, KafkaException

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 2,
            **protocol,
        }
    )
    gave = partial(report_owned, "gave")
    consumer.subscribe(
        [topic],
        on_assign=lambda _, partitions: report_owned("got", partitions),
        on_revoke=lambda _, partitions: gave(partitions),
        on_lost=lambda _, partitions: gave(partitions),
    )
    while go_on():
        values = [each.value() for each in consumer.consume(100, 0.1) if each.error() is None]
        if values:
            # Refused when there was a rebalance meanwhile: another member reads them again.
            with contextlib.suppress(KafkaException):
                consumer.commit(asynchronous=False)
            report(values)
    consumer.close()


def run_kafka_python(bootstrap: str, group: str, topic: str, go_on: Callable[[], bool]) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.errors import KafkaError

    class Listener(Reporting, ConsumerRebalanceListener):
        pass

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    consumer.subscribe([topic], listener=Listener())
    # Version 3.0.12 forgets a join under way at the end of a poll when it was only the topic's
    # partitions becoming known that called for it, and neither reads nor sends heartbeats then.
    # They are known before the first join.
    consumer.partitions_for_topic(topic)
    while go_on():
        found = consumer.poll(timeout_ms=100, max_records=100)
        values = [each.value for messages in found.values() for each in messages]
        if values:
            with contextlib.suppress(KafkaError):
                consumer.commit()
            report(values)
    # It reads nothing more, and is not asked again before it leaves.
    report_owned("gave", consumer.assignment())
    consumer.close()


def run_aiokafka(bootstrap: str, group: str, topic: str, go_on: Callable[[], bool]) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.errors import KafkaError

    class Listener(Reporting, ConsumerRebalanceListener):
        pass

    async def run() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        consumer.subscribe([topic], listener=Listener())
        await consumer.start()
        while go_on():
            found = await consumer.getmany(timeout_ms=100, max_records=100)
            values = [each.value for messages in found.values() for each in messages]
            if values:
                with contextlib.suppress(KafkaError):
                    await consumer.commit()
                report(values)
        report_owned("gave", consumer.assignment())
        await consumer.stop()

    asyncio.run(run())


RUN = {
    "confluent-kafka": run_confluent_kafka,
    "consumer protocol": partial(run_confluent_kafka, protocol={"group.protocol": "consumer"}),
    "kafka-python": run_kafka_python,
    "aiokafka": run_aiokafka,
}

EAGER = {**CLASSIC, "partition.assignment.strategy": "range"}
FOR_MIGRATION = {
    # Its cooperative assignor adds data of its own to assignments, with which no group goes over.
    "classic protocol": partial(run_confluent_kafka, protocol=EAGER),
    "consumer protocol": RUN["consumer protocol"],
}


def main() -> None:
    client, bootstrap, group, topic = sys.argv[1:]
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    {**RUN, **FOR_MIGRATION}[client](bootstrap, group, topic, lambda: not ended.is_set())


if __name__ == "__main__":
    main()

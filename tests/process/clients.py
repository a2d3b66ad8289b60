"""The three Python clients behind one interface: produce until stopped, then read all back.

Each client is used as its own documentation shows, with `acks=all` and idempotence where the client
has it. `Answers` maps what was sent to the offset that the broker answered.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

TOPIC = "orders"
SEND_TIMEOUT_S = 60


@dataclass
class Answers:
    """What the broker answered a producer: value to offset, all in partition 0."""

    acknowledged: dict[bytes, int] = field(default_factory=dict)
    failed: dict[bytes, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ack(self, value: bytes, offset: int) -> None:
        with self.lock:
            self.acknowledged[value] = offset

    def fail(self, value: bytes, reason: str) -> None:
        with self.lock:
            self.failed[value] = reason

    def count(self) -> int:
        with self.lock:
            return len(self.acknowledged)


class ConfluentKafka:
    """librdkafka."""

    name = "confluent-kafka"

    def produce(self, bootstrap: str, answers: Answers, go_on: Callable[[], bool]) -> None:
        from confluent_kafka import Producer

        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                "log_level": 2,
            }
        )
        index = 0
        while go_on():
            value = b"c%d" % index
            index += 1

            def report(error, message, value=value):
                if error is None:
                    answers.ack(value, message.offset())
                else:
                    answers.fail(value, str(error))

            producer.produce(TOPIC, value, partition=0, on_delivery=report)
            producer.poll(0.002)
        assert producer.flush(SEND_TIMEOUT_S) == 0, "records were neither acknowledged nor failed"

    def read(self, bootstrap: str, count: int) -> list[tuple[int, bytes]]:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "log_level": 2,
            }
        )
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        rows: list[tuple[int, bytes]] = []
        deadline = time.monotonic() + SEND_TIMEOUT_S
        while len(rows) < count and time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.2):
                assert message.error() is None, message.error()
                rows.append((message.offset(), message.value()))
        consumer.close()
        return rows


class KafkaPython:
    """kafka-python."""

    name = "kafka-python"

    def produce(self, bootstrap: str, answers: Answers, go_on: Callable[[], bool]) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=1, retries=1000)
        index = 0
        while go_on():
            value = b"k%d" % index
            index += 1
            future = producer.send(TOPIC, value, partition=0)
            future.add_callback(lambda meta, value=value: answers.ack(value, meta.offset))
            future.add_errback(lambda error, value=value: answers.fail(value, repr(error)))
            if index % 20 == 0:
                producer.flush(SEND_TIMEOUT_S)
        producer.flush(SEND_TIMEOUT_S)
        producer.close()

    def read(self, bootstrap: str, count: int) -> list[tuple[int, bytes]]:
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
        partition = TopicPartition(TOPIC, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        rows: list[tuple[int, bytes]] = []
        deadline = time.monotonic() + SEND_TIMEOUT_S
        while len(rows) < count and time.monotonic() < deadline:
            for messages in consumer.poll(200, max_records=1000).values():
                rows += [(message.offset, message.value) for message in messages]
        consumer.close()
        return rows


class AioKafka:
    """aiokafka."""

    name = "aiokafka"

    def produce(self, bootstrap: str, answers: Answers, go_on: Callable[[], bool]) -> None:
        asyncio.run(self._produce(bootstrap, answers, go_on))

    async def _produce(self, bootstrap: str, answers: Answers, go_on: Callable[[], bool]) -> None:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, acks="all", enable_idempotence=True
        )
        await producer.start()
        index = 0
        try:
            while go_on():
                batch = {}
                for _ in range(20):
                    value = b"a%d" % index
                    index += 1
                    batch[value] = await producer.send(TOPIC, value, partition=0)
                for value, future in batch.items():
                    try:
                        meta = await asyncio.wait_for(future, SEND_TIMEOUT_S)
                        answers.ack(value, meta.offset)
                    except Exception as error:
                        answers.fail(value, repr(error))
        finally:
            await producer.stop()

    def read(self, bootstrap: str, count: int) -> list[tuple[int, bytes]]:
        return asyncio.run(self._read(bootstrap, count))

    async def _read(self, bootstrap: str, count: int) -> list[tuple[int, bytes]]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
        await consumer.start()
        rows: list[tuple[int, bytes]] = []
        deadline = time.monotonic() + SEND_TIMEOUT_S
        try:
            partition = TopicPartition(TOPIC, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            while len(rows) < count and time.monotonic() < deadline:
                found = await consumer.getmany(timeout_ms=200, max_records=1000)
                for messages in found.values():
                    rows += [(message.offset, message.value) for message in messages]
        finally:
            await consumer.stop()
        return rows


CLIENTS = [ConfluentKafka(), KafkaPython(), AioKafka()]


class BackgroundProducer:
    """A client that produces in a thread until stopped."""

    def __init__(self, client, bootstrap: str) -> None:
        self.answers = Answers()
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(client, bootstrap), daemon=True)
        self._thread.start()

    def _run(self, client, bootstrap: str) -> None:
        try:
            client.produce(bootstrap, self.answers, lambda: not self._stop.is_set())
        except BaseException as error:
            self._error = error

    def wait_for_more(self, count: int, timeout_s: float = 60) -> float:
        """Waits until `count` more records are acknowledged; returns the seconds it took."""
        start = time.monotonic()
        goal = self.answers.count() + count
        while self.answers.count() < goal:
            assert self._error is None, self._error
            waited = time.monotonic() - start
            assert waited < timeout_s, f"{goal - self.answers.count()} acks missing: {waited:.1f} s"
            self._stop.wait(0.01)
        return time.monotonic() - start

    def finish(self) -> Answers:
        """Stops producing and waits for what is under way."""
        self._stop.set()
        self._thread.join(90)
        assert not self._thread.is_alive(), "the producer hangs"
        assert self._error is None, self._error
        return self.answers


def assert_nothing_lost(answers: Answers, rows: list[tuple[int, bytes]]) -> None:
    """Every acknowledged record is there once, at its acknowledged offset; offsets are dense."""
    assert [offset for offset, _ in rows] == list(range(len(rows))), "offsets are not dense"
    by_value: dict[bytes, list[int]] = {}
    for offset, value in rows:
        by_value.setdefault(value, []).append(offset)
    lost = [value for value in answers.acknowledged if value not in by_value]
    assert not lost, f"lost {len(lost)} of {len(answers.acknowledged)}: {lost[:5]}"
    twice = [value for value, offsets in by_value.items() if len(offsets) > 1]
    assert not twice, f"duplicated: {twice[:5]}"
    misplaced = [
        value for value, offset in answers.acknowledged.items() if by_value[value] != [offset]
    ]
    assert not misplaced, f"misplaced: {misplaced[:5]}"

"""The clients of a round, each a process of its own: `python -m tests.chaos.clients JSON`.

A producer sends numbered records to all partitions of its topic at a steady rate, until it reads
`finish` from its standard input; then it waits for what is under way, and sends to each partition
until a last record is acknowledged. A consumer polls with `assign` from the beginning; a reader
does so up to given ends and is done. Each writes its history (`lines.py`) and exits with 0.

| producer | client | acks | what it may lose |
| --- | --- | --- | --- |
| `idempotent` | confluent-kafka | all | nothing, in order, nothing twice in a producer epoch |
| `plain` | confluent-kafka, no retries | all | nothing that was acknowledged |
| `leader` | confluent-kafka, no retries | 1 | what the leader alone had, never what was read |
| `async` | aiokafka, idempotent | all | nothing, in order, nothing twice |
| `compacted`, `retained` | as `idempotent` | all | what compaction and retention may take |
"""

import asyncio
import json
import os
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.chaos.lines import HistoryFile, now_us, value_of
from tests.chaos.topics import CLEANED, COMPACTED, is_tombstone, key_of

TICK_S: Final = 0.005
POLL_S: Final = 0.1
# Longer than a deposed leader takes to learn of it.
STAYS_LOST_S: Final = 10.0
MAX_POLL_RECORDS: Final = 1000
DELIVERY_S: Final = 120

ROLES: Final = ("idempotent", "plain", "leader", "async", *CLEANED)
RESENT: Final = frozenset(("plain", "leader"))
"""Producers whose records may be there twice: they send again and are not idempotent."""


TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED = 29, 30, 31
DENIALS: Final = frozenset((TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED))
"""Codes that say that a user has no right; each client has its rights all the time."""


def reach_of(order: dict[str, Any]) -> dict[str, Any]:
    """How librdkafka reaches the cluster."""
    return {"bootstrap.servers": order["bootstrap"], **order["login"]}


def aiokafka_reach_of(order: dict[str, Any]) -> dict[str, Any]:
    """The same for aiokafka."""
    reach: dict[str, Any] = {"bootstrap_servers": order["bootstrap"]}
    if login := order["login"]:
        reach |= {
            "security_protocol": login["security.protocol"],
            "sasl_mechanism": login["sasl.mechanism"],
            "sasl_plain_username": login["sasl.username"],
            "sasl_plain_password": login["sasl.password"],
            "ssl_context": ssl.create_default_context(cafile=login["ssl.ca.location"]),
        }
    return reach


class Until:
    """True once the round has written `finish`. The process ends when the round is gone."""

    def __init__(self) -> None:
        self._finish_asked = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        if not sys.stdin.readline():
            # The round is gone, and with it the reader of the history.
            os._exit(3)
        self._finish_asked.set()

    def __call__(self) -> bool:
        return self._finish_asked.is_set()


class Tally:
    """Outcomes of a producer's records that are not in its history yet, by partition."""

    def __init__(self, history: HistoryFile, answered: str) -> None:
        self._history = history
        # The outcome of an acknowledged record: `ok`, or `info` where acks promise nothing.
        self._answered = answered
        # By partition and outcome: (n, offset, begun).
        self._unwritten: dict[tuple[int, str, str], list[tuple[int, int, int]]] = {}
        # The highest acknowledged n of each partition.
        self.acked: dict[int, int] = {}

    def ack(self, partition: int, n: int, offset: int | None, begun: int) -> None:
        self.acked[partition] = max(n, self.acked.get(partition, -1))
        # A retry may be answered without an offset, and librdkafka takes a batch for acknowledged
        # when a later one is: then it has none either.
        answer = (n, -1 if offset is None else max(offset, -1), begun)
        self._unwritten.setdefault((partition, self._answered, ""), []).append(answer)

    def fail(self, partition: int, n: int, begun: int, outcome: str, why: str) -> None:
        self._unwritten.setdefault((partition, outcome, why), []).append((n, -1, begun))

    def write(self) -> None:
        """Writes the outcomes since the last time, with now as their end."""
        ended = now_us()
        for (partition, outcome, why), answers in self._unwritten.items():
            answers.sort()
            begun = min(at for _, _, at in answers)
            acked = [(n, offset) for n, offset, _ in answers]
            self._history.send(partition, outcome, (begun, ended), acked, why)
        self._unwritten.clear()
        self._history.flush()


class Confluent:
    """librdkafka's producer."""

    def __init__(self, role: str, writer: str, order: dict[str, Any], tally: Tally) -> None:
        from confluent_kafka import Producer

        settings: dict[str, Any] = {
            **reach_of(order),
            "linger.ms": 5,
            "log_level": 0,
            "delivery.timeout.ms": DELIVERY_S * 1000,
            "socket.timeout.ms": 10_000,
            "reconnect.backoff.max.ms": 500,
        }
        if role in ("idempotent", *CLEANED):
            # A record that times out makes librdkafka raise the producer's epoch, and records of
            # other partitions whose answer is still out are sent again under new sequences: twice
            # in the log. So this producer waits without a limit.
            settings |= {"acks": "all", "enable.idempotence": True, "delivery.timeout.ms": 0}
            # For the bundle: what the client believes of its sequences.
            settings |= {"log_level": 7, "debug": "eos"}
        else:
            settings |= {"acks": "all" if role == "plain" else 1, "retries": 0}
            settings |= {"request.timeout.ms": 10_000, "delivery.timeout.ms": 30_000}
        self._topic, self._writer, self._tally = order["topic"], writer, tally
        self._history: HistoryFile = order["history"]
        self._producer = Producer(settings, error_cb=self._on_error)

    def send(self, partition: int, n: int) -> bool:
        """Whether the client's queue took it."""
        report = partial(self._delivered, partition, n, now_us())
        value: bytes | None = value_of(self._writer, partition, n)
        key = key_of(n) if self._topic == COMPACTED else None
        if key is not None and is_tombstone(n):
            value = None
        try:
            self._producer.produce(self._topic, value, key, partition=partition, on_delivery=report)
        except BufferError:
            return False
        return True

    def wait(self, seconds: float) -> None:
        self._producer.poll(seconds)

    def finish(self) -> bool:
        return self._producer.flush(DELIVERY_S + 30) == 0

    def _delivered(self, partition: int, n: int, begun: int, error: Any, message: Any) -> None:
        if error is None:
            self._tally.ack(partition, n, message.offset(), begun)
            return
        if error.code() in DENIALS:
            self._history.trouble(f"denied: {error.name()}")
        # Whatever the last error was, an earlier attempt may have been appended.
        self._tally.fail(partition, n, begun, "info", error.name())

    def _on_error(self, error: Any) -> None:
        if error.fatal():
            self._history.trouble(f"fatal: {error}")


def run_confluent(role: str, order: dict[str, Any], until: Callable[[], bool]) -> bool:
    """Produces until `until`; whether everything ended well."""
    tally = Tally(order["history"], "info" if role == "leader" else "ok")
    client = Confluent(role, order["name"], order, tally)
    partitions, next_n = range(order["partitions"]), [0] * order["partitions"]
    started, sent = time.monotonic(), 0
    while not until():
        # A producer that was held up does not try to catch up.
        due = int((time.monotonic() - started) * order["rate"])
        sent = max(sent, due - order["rate"])
        while sent < due:
            where = sent % len(partitions)
            next_n[where] += client.send(where, next_n[where])
            sent += 1
        client.wait(TICK_S)
        tally.write()
    ended_well = client.finish()
    tally.write()
    # The cluster must acknowledge again, and a new client shows that: the first one may have
    # stopped sending for good (`docs/results/2026-11-22-chaos.md`), which the gap in its
    # acknowledgements shows.
    client = Confluent(role, order["name"], order, tally)
    deadline = time.monotonic() + order["patience_s"]
    for where in partitions:
        while True:
            client.send(where, next_n[where])
            ended_well &= client.finish()
            tally.write()
            if tally.acked.get(where, -1) == next_n[where]:
                break
            next_n[where] += 1
            if time.monotonic() > deadline:
                order["history"].trouble(f"no acknowledgement in partition {where} after healing")
                return False
            time.sleep(0.2)
    return ended_well


async def start_patiently(client: Any, patience_s: float) -> None:
    """Tries again: aiokafka gives up when it reaches no node at its first attempt."""
    from aiokafka.errors import KafkaConnectionError

    deadline = time.monotonic() + patience_s
    while True:
        try:
            return await client.start()
        except KafkaConnectionError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)


async def run_aiokafka(order: dict[str, Any], until: Callable[[], bool]) -> bool:
    """The same with aiokafka, idempotent. A record that it gave up after two minutes without a
    leader leaves a gap in its sequences, and it sends nothing more that could be appended: the
    last records are sent by a new producer, as in `run`."""
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import KafkaTimeoutError

    tally = Tally(order["history"], "ok")

    async def started() -> AIOKafkaProducer:
        made = AIOKafkaProducer(
            **aiokafka_reach_of(order),
            acks="all",
            enable_idempotence=True,
            linger_ms=5,
            request_timeout_ms=DELIVERY_S * 1000,
        )
        await start_patiently(made, order["patience_s"])
        return made

    producer = await started()
    under_way: set[asyncio.Future[Any]] = set()

    def on_answer(partition: int, n: int, begun: int, future: asyncio.Future[Any]) -> None:
        under_way.discard(future)
        error = future.exception()
        if error is None:
            tally.ack(partition, n, future.result().offset, begun)
        else:
            tally.fail(partition, n, begun, "info", type(error).__name__)

    async def send(partition: int, n: int) -> None:
        begun = now_us()
        value = value_of(order["name"], partition, n)
        try:
            future = await producer.send(order["topic"], value, partition=partition)
        except KafkaTimeoutError as error:
            # Its buffer has been full for as long as a request may take. The record is not in it.
            tally.fail(partition, n, begun, "info", type(error).__name__)
            return
        under_way.add(future)
        future.add_done_callback(partial(on_answer, partition, n, begun))

    next_n = [0] * order["partitions"]
    pace = 0.02
    try:
        while not until():
            for i in range(max(1, int(order["rate"] * pace))):
                where = i % len(next_n)
                if len(under_way) < 5000:
                    await send(where, next_n[where])
                    next_n[where] += 1
            await asyncio.sleep(pace)
            tally.write()
        if under_way:
            await asyncio.wait(set(under_way), timeout=order["patience_s"])
        await asyncio.wait_for(producer.stop(), order["patience_s"])
        producer = await started()
        for where, n in enumerate(next_n):
            await send(where, n)
        await asyncio.wait(set(under_way), timeout=order["patience_s"])
    finally:
        await asyncio.wait_for(producer.stop(), order["patience_s"])
    tally.write()
    silent = [where for where, n in enumerate(next_n) if tally.acked.get(where, -1) < n]
    if silent:
        order["history"].trouble(f"no acknowledgement in partitions {silent} after healing")
    return not silent


def consume_confluent(order: dict[str, Any], until: Callable[[], bool]) -> bool:
    """Polls until `until`, or up to `ends`.

    When the leader changes again while librdkafka asks whether its position is still in the log,
    it holds the answer for one epoch against the position in another, and gives the position up.
    So here, too, a position counts as lost when it stays lost.
    """
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            **reach_of(order),
            "group.id": "none",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
    )
    topic = order["topic"]
    positions = dict.fromkeys(range(order["partitions"]), 0)
    consumer.assign([TopicPartition(topic, p, 0) for p in positions])
    lost_codes = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}
    goal, lost = Goal(order), Lost()
    while not until() and not goal.reached():
        begun = now_us()
        polled: dict[int, list[tuple[int, bytes | None]]] = {}
        for message in consumer.consume(MAX_POLL_RECORDS, POLL_S):
            partition = message.partition()
            if message.error() is None:
                positions[partition] = message.offset() + 1
                polled.setdefault(partition, []).append((message.offset(), message.value()))
            elif message.error().code() in DENIALS:
                order["history"].trouble(f"denied: {message.error()}")
            elif message.error().code() in lost_codes:
                if lost.stays([partition]):
                    order["history"].trouble(f"position lost: {message.error()}")
                    break
                consumer.seek(TopicPartition(topic, partition, positions[partition]))
        lost.found(polled)
        goal.note(order["history"], begun, polled)
    consumer.close()
    order["history"].flush()
    return goal.is_fine()


async def consume_aiokafka(order: dict[str, Any], until: Callable[[], bool]) -> bool:
    """The same with aiokafka.

    It keeps no leader epochs: metadata of a node that is behind may send it to a deposed leader,
    which has nothing at its position and answers so, as Apache Kafka's would. So a position counts
    as lost when it stays lost.
    """
    from aiokafka import AIOKafkaConsumer, TopicPartition
    from aiokafka.errors import OffsetOutOfRangeError

    consumer = AIOKafkaConsumer(
        **aiokafka_reach_of(order), enable_auto_commit=False, auto_offset_reset="none"
    )
    await start_patiently(consumer, order["patience_s"])
    partitions = [TopicPartition(order["topic"], p) for p in range(order["partitions"])]
    consumer.assign(partitions)
    for one in partitions:
        consumer.seek(one, 0)
    goal, lost = Goal(order), Lost()
    while not until() and not goal.reached():
        begun = now_us()
        try:
            found = await consumer.getmany(
                timeout_ms=int(POLL_S * 1000), max_records=MAX_POLL_RECORDS
            )
        except OffsetOutOfRangeError as error:
            if lost.stays(one.partition for one in error.args[0]):
                order["history"].trouble(f"position lost: {error}")
                break
            await asyncio.sleep(POLL_S)
            continue
        polled = {
            one.partition: [(message.offset, message.value) for message in messages]
            for one, messages in found.items()
        }
        lost.found(polled)
        goal.note(order["history"], begun, polled)
    await consumer.stop()
    order["history"].flush()
    return goal.is_fine()


class Lost:
    """Since when partitions have had nothing at a reader's position."""

    def __init__(self) -> None:
        self._since: dict[int, float] = {}

    def stays(self, partitions: Iterable[int]) -> bool:
        """They have nothing now; whether that has been so for long for one of them."""
        now = time.monotonic()
        since = [self._since.setdefault(partition, now) for partition in partitions]
        return any(now - begun > STAYS_LOST_S for begun in since)

    def found(self, partitions: Iterable[int]) -> None:
        """They had something."""
        for partition in partitions:
            self._since.pop(partition, None)


class Goal:
    """Up to where a reader has to read; a consumer has no such goal."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._ends = {int(p): int(end) for p, end in (order.get("ends") or {}).items() if end}
        self._endless = order.get("ends") is None
        self._deadline = time.monotonic() + order["patience_s"]

    def reached(self) -> bool:
        if self._endless:
            return False
        return not self._ends or time.monotonic() > self._deadline

    def is_fine(self) -> bool:
        return not self._ends

    def note(
        self, history: HistoryFile, begun: int, polled: dict[int, list[tuple[int, bytes | None]]]
    ) -> None:
        if polled:
            history.poll(begun, polled)
            history.flush()
        for partition, values in polled.items():
            if values and values[-1][0] + 1 >= self._ends.get(partition, 1 << 62):
                del self._ends[partition]


def main() -> int:
    order = json.loads(sys.argv[1])
    order["history"] = HistoryFile(Path(order["path"]))
    role, until = order["role"], Until()
    if role == "async":
        fine = asyncio.run(run_aiokafka(order, until))
    elif role in ROLES:
        fine = run_confluent(role, order, until)
    elif role == "consume-async":
        fine = asyncio.run(consume_aiokafka(order, until))
    else:
        fine = consume_confluent(order, until)
    order["history"].flush()
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())

"""Exactly once through all faults: a topic copied in transactions, partition by partition.

    python -m tests.chaos.copiers JSON

Two members of a group share the partitions of the source. Each reads, produces the same values to
the same partitions of the copy and commits its offsets, all in one transaction. So coordinators of
groups and of transactions, markers and the last stable offset are all under faults. In the end each
partition of the copy, read committed, holds what the source's holds, in order and once; what the
group has committed is the source's end. A member's own errors are not judged: it aborts, or begins
anew with a new producer.

librdkafka's `send_offsets_to_transaction` may wait for ever, without a request under way. So a
member that does nothing for long begins anew, as a new program in its process.

A `read-committed` reader reads the copy up to the end of its partitions and is done.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.chaos.clients import MAX_POLL_RECORDS, POLL_S, Until, reach_of
from tests.chaos.lines import HistoryFile, now_us

COPY: Final = "copy"
GROUP: Final = "copiers"
PER_TRANSACTION: Final = 2_000
_TRANSACTION_S: Final = 20.0
_STUCK_S: Final = 60.0


class Copier:
    """One member; see the module's docstring."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self._partitions = range(order["partitions"])
        self._consumer = Consumer(
            {
                **_settings(order),
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
                "partition.assignment.strategy": "range",
            }
        )
        # `None`: the next transaction begins with a new one, which ends what the last one left.
        self._producer: Producer | None = None
        # Whether partitions were taken away while the last records were read.
        self._lost = False
        # When the last call of the client ended.
        self._progress_at = time.monotonic()
        self._consumer.subscribe([order["source"]], on_revoke=self._on_gone, on_lost=self._on_gone)

    def run(self, until: Callable[[], bool]) -> bool:
        """Copies until `until`, then until the group has committed the source's end."""
        deadline = None
        threading.Thread(target=self._begin_anew_when_stuck, args=(until,), daemon=True).start()
        while True:
            self._progress_at = time.monotonic()
            try:
                copied = self._copy_some()
            except KafkaException as error:
                self._note(f"{error.args[0].name()}")
                self._producer = None
                self._go_back()
                copied = 1
            if not until():
                continue
            deadline = deadline or time.monotonic() + self._order["patience_s"]
            if not copied and self._has_committed_everything():
                self._consumer.close()
                return True
            if time.monotonic() > deadline:
                self._order["history"].trouble("the group does not reach the source's end")
                return False

    def _begin_anew_when_stuck(self, until: Callable[[], bool]) -> None:
        while time.monotonic() - self._progress_at < _STUCK_S:
            time.sleep(1)
        self._note("stuck: begins anew")
        order = {name: self._order[name] for name in self._order if name != "history"}
        order["finishes"] = until()
        command = [sys.executable, "-m", "tests.chaos.copiers", json.dumps(order)]
        os.execv(sys.executable, command)

    def _copy_some(self) -> int:
        """One transaction; how many records were in it."""
        self._lost = False
        messages = [
            each for each in self._consumer.consume(PER_TRANSACTION, POLL_S) if each.error() is None
        ]
        if self._lost:
            self._go_back()
            return len(messages)
        if not messages:
            return 0
        producer = self._ready_producer()
        producer.begin_transaction()
        places: dict[int, int] = {}
        for each in messages:
            producer.produce(COPY, each.value(), partition=each.partition())
            places[each.partition()] = each.offset() + 1
            producer.poll(0)
        offsets = [
            TopicPartition(self._order["source"], number, place) for number, place in places.items()
        ]
        metadata = self._consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(offsets, metadata, _TRANSACTION_S)
        producer.commit_transaction(_TRANSACTION_S)
        return len(messages)

    def _ready_producer(self) -> Producer:
        if self._producer is None:
            settings = {
                **_settings(self._order),
                "transactional.id": self._order["name"],
                "transaction.timeout.ms": 15_000,
                "linger.ms": 5,
                "queue.buffering.max.messages": 2 * PER_TRANSACTION,
                # For the bundle: what the client believes of its transaction.
                "log_level": 7,
                "debug": "eos",
            }
            self._producer = Producer(settings)
            self._producer.init_transactions(_TRANSACTION_S)
        return self._producer

    def _go_back(self) -> None:
        """To what the group has committed: the transaction's records are to be read again."""
        while True:
            owned = self._consumer.assignment()
            try:
                committed = self._consumer.committed(owned, timeout=_TRANSACTION_S) if owned else []
                for each in committed:
                    place = TopicPartition(each.topic, each.partition, max(each.offset, 0))
                    self._consumer.seek(place)
                return
            except KafkaException as error:
                # What a rebalance has changed is known after a poll. A record that it returns is
                # read again, because all positions are set once more.
                self._note(f"going back: {error.args[0].name()}")
                self._consumer.poll(POLL_S)

    def _has_committed_everything(self) -> bool:
        wanted = [TopicPartition(self._order["source"], number) for number in self._partitions]
        try:
            committed = self._consumer.committed(wanted, timeout=5)
            ends = [self._consumer.get_watermark_offsets(one, timeout=5)[1] for one in wanted]
        except KafkaException:
            return False
        return all(
            each.error is None and max(each.offset, 0) >= end
            for each, end in zip(committed, ends, strict=True)
        )

    def _on_gone(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self._lost = True

    def _note(self, text: str) -> None:
        print(f"{now_us()} {text}", file=sys.stderr, flush=True)


def read_committed(order: dict[str, Any]) -> bool:
    """Reads all partitions to their end."""
    consumer = Consumer(
        {
            **_settings(order),
            "group.id": "none",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
        }
    )
    open_ends = set(range(order["partitions"]))
    consumer.assign([TopicPartition(order["topic"], number, 0) for number in open_ends])
    deadline = time.monotonic() + order["patience_s"]
    while open_ends and time.monotonic() < deadline:
        begun = now_us()
        polled: dict[int, list[tuple[int, bytes | None]]] = {}
        for message in consumer.consume(MAX_POLL_RECORDS, POLL_S):
            error = message.error()
            if error is None:
                polled.setdefault(message.partition(), []).append(
                    (message.offset(), message.value())
                )
            elif error.code() == KafkaError._PARTITION_EOF:
                open_ends.discard(message.partition())
        if polled:
            order["history"].poll(begun, polled)
    consumer.close()
    return not open_ends


def _settings(order: dict[str, Any]) -> dict[str, Any]:
    return {
        **reach_of(order),
        "isolation.level": "read_committed",
        "reconnect.backoff.max.ms": 500,
        "log_level": 0,
    }


def main() -> int:
    order = json.loads(sys.argv[1])
    order["history"] = HistoryFile(Path(order["path"]))
    until: Callable[[], bool] = (lambda: True) if order.get("finishes") else Until()
    fine = read_committed(order) if order["role"] == "read-committed" else Copier(order).run(until)
    order["history"].flush()
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())

"""Reads a topic whose old records go, from its beginning to its end:
`python -m tests.chaos.cleaned JSON`.

Of `compacted` the history gets one line for each partition, with what a reader takes for the state
of each key: the n of its last value, or null if that was a deletion.

    {"f": "state", "p": 3, "t": [begun, ended], "r": {"17": 4711, "18": null, ...}}
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.chaos.clients import MAX_POLL_RECORDS, POLL_S, reach_of
from tests.chaos.lines import HistoryFile, now_us, parse_value
from tests.chaos.topics import COMPACTED


def read(order: dict[str, Any]) -> bool:
    """Whether the end of all partitions was reached."""
    history, topic = order["history"], order["topic"]
    consumer = Consumer(
        {
            **reach_of(order),
            "group.id": "none",
            "enable.auto.commit": False,
            # Retention goes on: what a reader was about to read may be gone.
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    unread = set(range(order["partitions"]))
    consumer.assign([TopicPartition(topic, number, 0) for number in unread])
    states: dict[int, dict[str, Any]] = {number: {} for number in unread}
    started, deadline = now_us(), time.monotonic() + order["patience_s"]
    while unread and time.monotonic() < deadline:
        begun = now_us()
        polled: dict[int, list[tuple[int, bytes | None]]] = {}
        for message in consumer.consume(MAX_POLL_RECORDS, POLL_S):
            number, error = message.partition(), message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(number)
            elif topic == COMPACTED:
                states[number][message.key().decode()] = n_of(number, message.value())
            else:
                polled.setdefault(number, []).append((message.offset(), message.value()))
        if polled:
            history.poll(begun, polled)
    consumer.close()
    if topic == COMPACTED:
        for number, state in states.items():
            history.state(number, (started, now_us()), state)
    return not unread


def n_of(partition: int, value: bytes | None) -> Any:
    """Which value that is; text for one that no producer wrote."""
    return None if value is None else parse_value(partition, value)[1]


def main() -> int:
    order = json.loads(sys.argv[1])
    order["history"] = HistoryFile(Path(order["path"]))
    fine = read(order)
    order["history"].flush()
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())

"""What the topic sink's tasks do: rows as Arrow batches to acknowledged records.

Each task has one idempotent producer with `acks=all`. Rows have the official connector's columns:
`value` (required), `key`, `headers`, `partition` and `topic`, which the option of that name
overrides. Other columns are ignored, so that a frame from a source can be written as it is. Records
without a partition are placed by the hash of their key, the same one as Java's.

The first refused record ends the task, by a `WriteFailed` that names its topic and partition. A
task reports its rows only after every record is acknowledged. Exactly-once puts a task's records
and a note of them into one transaction (`commits.py`). No Spark import here.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer

from tidelog.errors import UsageError
from tidelog.pipeline.errors import WriteFailed
from tidelog.pipeline.sink.options import SinkOptions

COLUMNS: Final[Mapping[str, frozenset[str]]] = {
    "topic": frozenset({"string"}),
    "partition": frozenset({"int"}),
    "key": frozenset({"string", "binary"}),
    "value": frozenset({"string", "binary"}),
    "headers": frozenset({"array<struct<key:string,value:binary>>"}),
}
"""The columns that are written, with the types that they may have in Spark."""

NO_PARTITION: Final = -1
"""librdkafka's value for: chosen by the key."""
_POLL_EVERY: Final = 1000
_FULL_WAIT_S: Final = 0.1
_TRANSACTION_TIMEOUT_MS: Final = 300_000


@dataclass(slots=True)
class Delivery:
    """What became of the records of a task."""

    rows: int = 0
    failure: WriteFailed | None = None

    def on_delivery(self, error: KafkaError | None, message: Any) -> None:
        """librdkafka's report of one record."""
        if error is not None and self.failure is None:
            self.failure = write_failed(message.topic(), message.partition(), error)

    def check(self) -> None:
        """Raises the first failure."""
        if self.failure is not None:
            raise self.failure


def check_columns(types: Mapping[str, str], options: SinkOptions) -> None:
    """Judges a frame's columns, by name to Spark's type names. Raises `UsageError`."""
    if "value" not in types:
        raise UsageError(
            f"there is no column `value` among {', '.join(f'`{name}`' for name in types)}",
            "select what shall be written as `value`, for example `to_json(struct(*)) AS value`",
        )
    if "topic" not in types and options.topic is None:
        raise UsageError(
            "no topic is given", 'add `.option("topic", …)`, or a column `topic` for each record'
        )
    for name, allowed in COLUMNS.items():
        if name in types and types[name] not in allowed:
            raise UsageError(
                f"column `{name}` is {types[name]}", f"cast it to {' or '.join(sorted(allowed))}"
            )


def write_rows(batches: Iterable[pa.RecordBatch], options: SinkOptions) -> int:
    """Writes a task's rows at least once; returns how many once all are acknowledged. Raises
    `WriteFailed`, `UsageError`."""
    producer = make_producer(options)
    if options.topic is not None:
        check_topic(producer, options.topic)
    delivery = send_rows(producer, batches, options)
    left = producer.flush()
    delivery.check()
    assert left == 0, f"{left} records have neither failed nor been acknowledged"
    return delivery.rows


def make_producer(options: SinkOptions, transactional_id: str | None = None) -> Producer:
    """An idempotent producer. Raises `UsageError` for options that the client does not know."""
    ours = {
        "acks": "all",
        "enable.idempotence": True,
        # Asking for a topic must not be what creates it.
        "allow.auto.create.topics": False,
        # As the Java client places keys.
        "partitioner": "murmur2_random",
        "linger.ms": 20,
        "log_level": 2,
    }
    if transactional_id is not None:
        ours["transactional.id"] = transactional_id
        # A task may take long; its successor fences a dead one, not this timeout.
        ours["transaction.timeout.ms"] = _TRANSACTION_TIMEOUT_MS
    try:
        return Producer({**ours, **options.client})
    except KafkaException as error:
        raise UsageError(
            f"the Kafka client does not accept its configuration: {error.args[0].str()}",
            "the names after `kafka.` are those of librdkafka",
        ) from None


def check_topic(producer: Producer, topic: str, timeout_s: float = 30.0) -> None:
    """Raises `UsageError` when the topic does not exist, `WriteFailed` when no broker answers."""
    try:
        found = producer.list_topics(topic, timeout_s).topics[topic]
    except KafkaException as error:
        raise write_failed(topic, NO_PARTITION, error.args[0]) from None
    if found.error is not None and found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        raise UsageError(
            f"topic `{topic}` does not exist", f"create it: `tidelog topics create {topic}`"
        )


def send_rows(
    producer: Producer, batches: Iterable[pa.RecordBatch], options: SinkOptions
) -> Delivery:
    """Hands all rows to the producer; acknowledgements may be outstanding. Raises `WriteFailed` for
    the first record known to be refused, `UsageError` for a row without a topic."""
    delivery = Delivery()
    for batch in batches:
        for topic, record in _records(batch, options.topic):
            if topic is None:
                raise UsageError(
                    f"row {delivery.rows} of a task has no topic",
                    'fill the column `topic`, or add `.option("topic", …)`',
                )
            _send(producer, topic, record, delivery)
            delivery.rows += 1
            if delivery.rows % _POLL_EVERY == 0:
                producer.poll(0)
                delivery.check()
    return delivery


def _send(producer: Producer, topic: str, record: dict[str, Any], delivery: Delivery) -> None:
    while True:
        try:
            producer.produce(topic, on_delivery=delivery.on_delivery, **record)
            return
        except BufferError:
            producer.poll(_FULL_WAIT_S)
            delivery.check()
        except KafkaException as error:
            partition = record.get("partition", NO_PARTITION)
            raise write_failed(topic, partition, error.args[0]) from None


def _records(
    batch: pa.RecordBatch, topic: str | None
) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """The rows as topic and arguments of `produce`."""
    columns: dict[str, list[Any]] = {name: [None] * len(batch) for name in COLUMNS}
    columns |= {n: batch.column(n).to_pylist() for n in COLUMNS if n in batch.schema.names}
    if topic is not None:
        columns["topic"] = [topic] * len(batch)
    rows = zip(*(columns[name] for name in COLUMNS), strict=True)
    for to, partition, key, value, headers in rows:
        record = {"key": key, "value": value}
        if partition is not None:
            record["partition"] = partition
        if headers:
            record["headers"] = [(header["key"], header["value"]) for header in headers]
        yield to, record


_HINTS: Final[Mapping[int, str]] = {
    KafkaError.MSG_SIZE_TOO_LARGE: "raise `kafka.message.max.bytes` here and `max.message.bytes` "
    "of the topic, or write smaller values",
    KafkaError._UNKNOWN_PARTITION: "look at the column `partition`: the topic has fewer",
    **dict.fromkeys(
        (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART),
        "create the topic, or look at the column `topic`",
    ),
    KafkaError._MSG_TIMED_OUT: "look whether the partition has a leader and enough in-sync "
    "replicas: `tidelog topics describe`",
    KafkaError.NOT_ENOUGH_REPLICAS: "bring back replicas: `tidelog topics describe` shows the ISR",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "ask for the right to write to the topic",
    KafkaError._FENCED: "another attempt of this task has taken over; this one may end",
}
_OTHER_HINT: Final = "look at the brokers' logs, then run the job again"


def write_failed(topic: str, partition: int, error: KafkaError) -> WriteFailed:
    """A client's error as an exception: which partition, what happened, what to do."""
    where = topic if partition < 0 else f"{topic}-{partition}"
    hint = _HINTS.get(error.code(), _OTHER_HINT)
    return WriteFailed(where, f"{error.str()} ({error.name()})", hint)

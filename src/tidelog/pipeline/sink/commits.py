"""Exactly-once for the topic sink: a task's records and the note that they are there, at once.

Spark repeats what it is not sure of: a task whose worker died, a batch whose driver died. A
repeated task has the same rows, for the batch's offsets were written down before it began; so it
is enough to know whether they have been written. That is known by a *note*, a record in the topic
`__tidelog_sink_commits`, which is in the same transaction as the rows: both are there, or neither.

    key    {"write": QUERY, "task": 3}      value    {"batch": 17, "rows": 1000}

The topic is compacted, so it holds the last note of each task of each query for ever, and reading
it from its beginning stays cheap. A task of batch N goes like this:

1. It takes its transactional id, `tidelog-sink-QUERY-TASK`, by `init_transactions`. From here on
   an older attempt of the task is fenced, and what it left open is aborted or committed.
2. It reads its notes' partition, committed records only, up to where the partition ended after
   step 1. A note of another task that is not decided yet is waited for; its owner never waits for
   us between writing it and committing.
3. Is there a note of batch N, it has nothing to do. Is there one of a later batch, somebody has
   restored an old checkpoint: that fails.
4. Otherwise it writes its rows, then its note, and commits.

Invariants: a note is never without its rows (NoteWithRows); for a task, notes have growing batch
numbers (NotesGrow).

What it rests on: a repeated task has the same rows. A changed number of tasks, by
`spark.sql.shuffle.partitions` or a changed query, would break that between a batch and its
repetition; a repeated task whose number of rows differs from its note is refused for that reason.

Readers see a batch's tasks appear one by one, each as a whole, if they read committed records
only. Left out: one transaction over all tasks of a batch, which one producer cannot do.

Source: KIP-98 (transactions), KIP-447.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tidelog.client.blocking import Connection
from tidelog.client.core.errors import Unreachable
from tidelog.errors import UsageError
from tidelog.pipeline.cluster import CLIENT_ID
from tidelog.pipeline.errors import ClusterUnavailable
from tidelog.pipeline.sink.options import AT_LEAST_ONCE, GUARANTEE, SinkOptions
from tidelog.pipeline.sink.writer import (
    NO_PARTITION,
    check_topic,
    make_producer,
    send_rows,
    write_failed,
)
from tidelog.wire.api import ApiKey

T = TypeVar("T")

COMMITS_TOPIC: Final = "__tidelog_sink_commits"
COMMITS_PARTITIONS: Final = 8
COMMITS_CONFIG: Final = {
    "cleanup.policy": "compact",
    # Only sealed segments are compacted: small ones keep the topic short.
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": "60000",
}
_TIMEOUT_S: Final = 60.0
_BACKOFF_S: Final = 0.1
_NOTES_AT_ONCE: Final = 10_000
_PASSING: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        # The client's own words for a partition that its metadata has no leader of.
        KafkaError._NOENT,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
    }
)
"""Errors of a topic that was made, or whose leader changed, a moment ago."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task of one batch of one write; the same again when Spark repeats it."""

    write_id: str
    """The query's id, or the name of a batch write."""
    batch_id: int
    """The micro-batch; 0 for a batch write."""
    number: int
    """Which of the batch's tasks, from 0."""

    @property
    def transactional_id(self) -> str:
        """By which brokers fence older attempts."""
        return f"tidelog-sink-{self.write_id}-{self.number}"

    @property
    def key(self) -> bytes:
        """The key of the task's notes."""
        return json.dumps({"write": self.write_id, "task": self.number}).encode()

    @property
    def notes_partition(self) -> int:
        """Where its notes are."""
        return self.number % COMMITS_PARTITIONS


@dataclass(frozen=True, slots=True)
class Note:
    """What a task noted in its transaction."""

    batch_id: int
    rows: int

    def encoded(self) -> bytes:
        """The value of the record."""
        return json.dumps({"batch": self.batch_id, "rows": self.rows}).encode()


def write_once(batches: Iterable[pa.RecordBatch], options: SinkOptions, task: Task) -> int:
    """Writes a task's rows in one transaction, unless that was done before; returns how many rows
    the task has.

    Raises `WriteFailed`, `UsageError`, `ClusterUnavailable`.
    """
    check_transactions(options)
    producer = make_producer(options, task.transactional_id)
    if options.topic is not None:
        check_topic(producer, options.topic)
    _run_step(task, lambda: producer.init_transactions(_TIMEOUT_S))
    note = read_note(options, task)
    if note is not None and is_noted(note, task):
        check_repeated(note, task, sum(len(batch) for batch in batches))
        return note.rows
    _run_step(task, producer.begin_transaction)
    try:
        delivery = send_rows(producer, batches, options)
        producer.produce(
            COMMITS_TOPIC,
            Note(task.batch_id, delivery.rows).encoded(),
            task.key,
            partition=task.notes_partition,
        )
        producer.flush()
        delivery.check()
    except BaseException:
        _abort(producer)
        raise
    _run_step(task, lambda: producer.commit_transaction(_TIMEOUT_S))
    return delivery.rows


def is_noted(note: Note, task: Task) -> bool:
    """Whether the task's rows are there already, by its last note. Raises `UsageError` for a
    batch of the past."""
    if note.batch_id > task.batch_id:
        raise UsageError(
            f"task {task.number} of `{task.write_id}` has written batch {note.batch_id}, and is "
            f"now asked for batch {task.batch_id}",
            "the checkpoint is older than what was written: start the query on a new checkpoint",
        )
    return note.batch_id == task.batch_id


def check_repeated(note: Note, task: Task, rows: int) -> None:
    """Raises `UsageError` when the rows of a repeated task cannot be those that were written."""
    if rows != note.rows:
        raise UsageError(
            f"task {task.number} of batch {task.batch_id} was written with {note.rows} rows and is "
            f"repeated with {rows}",
            "the batch was divided differently before: restore the old number of tasks "
            "(`spark.sql.shuffle.partitions`, `minPartitions`) until the batch is through",
        )


def check_transactions(options: SinkOptions) -> None:
    """Raises `UsageError` when the brokers know no transactions, `ClusterUnavailable`.

    Asks over a plain connection; who has configured security is left to find out later.
    """
    if "security.protocol" in options.client:
        return
    refusals = []
    for address in options.bootstrap:
        try:
            with closing(Connection(address, CLIENT_ID, _TIMEOUT_S)) as connection:
                if connection.serves(ApiKey.END_TXN):
                    return
        except Unreachable as error:
            refusals.append(str(error))
            continue
        raise UsageError(
            f"broker `{address}` has no transactions, which `exactly-once` needs",
            f"set `{GUARANTEE}` to `{AT_LEAST_ONCE}`, or write to a cluster that has them",
        )
    raise ClusterUnavailable("; ".join(refusals))


def read_note(options: SinkOptions, task: Task) -> Note | None:
    """The task's last note; `None` when it has never noted anything. Makes the topic if need be.

    Raises `WriteFailed`.
    """
    place = TopicPartition(COMMITS_TOPIC, task.notes_partition)
    # Asked for, the topic would be created as the broker sees fit, which is not for ever.
    admin = AdminClient({**options.client, "log_level": 2, "allow.auto.create.topics": False})
    end = _run_step(task, lambda: _end_of_notes(admin, place))
    if end == 0:
        return None
    consumer = Consumer(
        {
            **options.client,
            "group.id": "tidelog-sink",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "log_level": 2,
        }
    )
    try:
        consumer.assign([TopicPartition(COMMITS_TOPIC, task.notes_partition, 0)])
        last = None
        for key, value in _run_step(task, lambda: list(_notes_until(consumer, end))):
            if key == task.key:
                last = value
    finally:
        consumer.close()
    if last is None:
        return None
    found = json.loads(last)
    return Note(int(found["batch"]), int(found["rows"]))


def _end_of_notes(admin: AdminClient, place: TopicPartition) -> int:
    """The partition's high watermark; a topic that is not there is made. Its leader may be on its
    way to it."""
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        found = admin.list_topics(COMMITS_TOPIC, _TIMEOUT_S).topics[COMMITS_TOPIC]
        if found.error is not None and found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            _make_topic(admin)
        asked = admin.list_offsets(
            {place: OffsetSpec.latest()},
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=_TIMEOUT_S,
        )
        try:
            return int(asked[place].result(_TIMEOUT_S).offset)
        except KafkaException as error:
            if error.args[0].code() not in _PASSING or time.monotonic() > deadline:
                raise
        time.sleep(_BACKOFF_S)


def _make_topic(admin: AdminClient) -> None:
    topic = NewTopic(COMMITS_TOPIC, COMMITS_PARTITIONS, config=dict(COMMITS_CONFIG))
    try:
        admin.create_topics([topic])[COMMITS_TOPIC].result(_TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def _notes_until(consumer: Consumer, end: int) -> Iterator[tuple[bytes, bytes]]:
    """The committed notes below the offset `end`."""
    while True:
        messages = consumer.consume(_NOTES_AT_ONCE, 1.0)
        for message in messages:
            error = message.error()
            if error is None:
                yield message.key(), message.value()
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            elif message.offset() >= end:
                return


def _abort(producer: Producer) -> None:
    """Gives the transaction up, as well as that goes: the next attempt would do it."""
    with suppress(KafkaException):
        producer.abort_transaction(_TIMEOUT_S)


def _run_step(task: Task, step: Callable[[], T]) -> T:
    """A step of the transaction; the client's errors in words."""
    try:
        return step()
    except KafkaException as error:
        raise write_failed(task.transactional_id, NO_PARTITION, error.args[0]) from None

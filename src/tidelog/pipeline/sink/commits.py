"""Exactly-once for the topic sink: a task's records and a note of them in one transaction.

Spark repeats a task whose worker died, and a batch whose driver died. A repeated task has the same
rows, because Spark logged the batch's offsets before the batch began. So the task only has to find
out whether its rows were written. A *note* answers that: a record in the topic
`__tidelog_sink_commits`, in the same transaction as the rows, so that both exist or neither.

    key    {"write": QUERY, "task": 3}      value    {"batch": 17, "rows": 1000}

The topic is compacted, so it keeps the last note of each task of each query, and reading it from
its beginning stays cheap. A task of batch N does the following:

1. It takes its transactional id, `tidelog-sink-QUERY-TASK`, by `init_transactions`. This fences an
   older attempt of the task, and ends a transaction that the attempt left open.
2. It reads the committed records of its notes' partition, up to where the partition ended after
   step 1. It waits for open transactions of other tasks there; they never wait for this task
   between writing their note and committing.
3. If there is a note of batch N, the task has nothing to do. If there is one of a later batch, the
   query runs from an old checkpoint, and the task fails.
4. Otherwise it writes its rows, then its note, and commits.

Invariants: a note is never without its rows (NoteWithRows); for a task, notes have growing batch
numbers (NotesGrow).

The premise is that a repeated task has the same rows. A changed number of tasks, by
`spark.sql.shuffle.partitions` or a changed query, would break it between a batch and its
repetition. So a repeated task is refused if its number of rows differs from its note.

Readers of committed records see a batch's tasks appear one by one, each as a whole. Left out: one
transaction over all tasks of a batch, which one producer cannot do.
Source: KIP-98 (transactions), KIP-447.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tidelog.client.blocking import Connection
from tidelog.client.core.errors import Unreachable
from tidelog.errors import UsageError
from tidelog.pipeline.cluster import CLIENT_ID
from tidelog.pipeline.errors import ClusterUnavailable
from tidelog.pipeline.sink import writer
from tidelog.pipeline.sink.options import AT_LEAST_ONCE, GUARANTEE, SinkOptions
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
_PASSING: Final = frozenset((
    KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH,
    # The client's own codes for a partition without a leader in its metadata.
    KafkaError._NOENT, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC,
))  # fmt: skip
"""Errors of a topic that was just created, or whose leader has just changed."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task of one batch of one write; equal when Spark repeats it."""

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
        return self.number % COMMITS_PARTITIONS


@dataclass(frozen=True, slots=True)
class Note:
    """The content of a note."""

    batch_id: int
    rows: int

    def encoded(self) -> bytes:
        return json.dumps({"batch": self.batch_id, "rows": self.rows}).encode()


def write_once(batches: Iterable[pa.RecordBatch], options: SinkOptions, task: Task) -> int:
    """Writes a task's rows in one transaction, unless that was done before; returns how many rows
    the task has. Raises `WriteFailed`, `UsageError`, `ClusterUnavailable`."""
    check_transactions(options)
    producer = writer.make_producer(options, task.transactional_id)
    if options.topic is not None:
        writer.check_topic(producer, options.topic)
    _run_step(task, lambda: producer.init_transactions(_TIMEOUT_S))
    note = read_note(options, task)
    if note is not None and is_noted(note, task):
        check_repeated(note, task, sum(len(batch) for batch in batches))
        return note.rows
    _run_step(task, producer.begin_transaction)
    try:
        delivery = writer.send_rows(producer, batches, options)
        producer.produce(
            COMMITS_TOPIC,
            Note(task.batch_id, delivery.rows).encoded(),
            task.key,
            partition=task.notes_partition,
        )
        producer.flush()
        delivery.check()
    except BaseException:
        # If that fails too, the next attempt's fencing aborts it.
        with suppress(KafkaException):
            producer.abort_transaction(_TIMEOUT_S)
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
    """Raises `UsageError` when the brokers have no transactions, `ClusterUnavailable`. It asks over
    a plain connection. With a configured `security.protocol` it does not ask: then the write itself
    fails."""
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
    Raises `WriteFailed`."""
    place = TopicPartition(COMMITS_TOPIC, task.notes_partition)
    # A metadata request must not create the topic with the broker's defaults, which delete notes.
    admin = AdminClient({**options.client, "log_level": 2, "allow.auto.create.topics": False})
    end = _run_step(task, lambda: _end_of_notes(admin, place))
    if end == 0:
        return None
    ours = {
        "group.id": "tidelog-sink",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "log_level": 2,
    }
    with closing(Consumer({**options.client, **ours})) as consumer:
        consumer.assign([TopicPartition(COMMITS_TOPIC, task.notes_partition, 0)])
        notes = dict(_run_step(task, lambda: list(_notes_until(consumer, end))))
    if task.key not in notes:
        return None
    found = json.loads(notes[task.key])
    return Note(int(found["batch"]), int(found["rows"]))


def _end_of_notes(admin: AdminClient, place: TopicPartition) -> int:
    """The partition's high watermark. Creates a missing topic, and waits for the partition's
    leader."""
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


def _run_step(task: Task, step: Callable[[], T]) -> T:
    """Runs a step of the transaction; raises the client's errors as `WriteFailed`."""
    try:
        return step()
    except KafkaException as error:
        raise writer.write_failed(
            task.transactional_id, writer.NO_PARTITION, error.args[0]
        ) from None

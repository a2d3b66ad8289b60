"""What a task hands to its producer, and how it reports errors."""

import pickle

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from tidelog.errors import UsageError
from tidelog.pipeline.errors import WriteFailed
from tidelog.pipeline.sink.options import SinkOptions, parse_sink_options
from tidelog.pipeline.sink.writer import check_columns, make_producer, send_rows, write_failed

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def options(topic: str | None = "orders", **client: str) -> SinkOptions:
    given = {"kafka.bootstrap.servers": "one:9092", **client}
    return parse_sink_options(given if topic is None else {**given, "topic": topic}, streaming=True)


class Taken:
    """A producer that takes records and acknowledges or refuses them when it is polled."""

    def __init__(self, *, space: int = 1_000_000, refusal: KafkaError | None = None) -> None:
        self.records: list[tuple] = []
        self.space = space
        self.refusal = refusal
        self.waiting: list[tuple] = []

    def produce(self, topic, *, on_delivery, **record):
        if len(self.waiting) == self.space:
            raise BufferError("full")
        self.records.append((topic, record))
        self.waiting.append((topic, record, on_delivery))

    def poll(self, timeout):
        waiting, self.waiting = self.waiting, []
        for topic, record, on_delivery in waiting:
            on_delivery(self.refusal, Report(topic, record.get("partition", 0)))
        return len(waiting)

    def flush(self, timeout=-1.0):
        self.poll(timeout)
        return 0


class Report:
    """librdkafka's report of one record."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = lambda: topic
        self.partition = lambda: partition


def test_a_row_becomes_a_record_with_what_it_has():
    batch = pa.record_batch(
        {
            "offset": pa.array([7, 8]),
            "key": pa.array([b"k", None]),
            "value": pa.array(["v", None]),
            "partition": pa.array([0, None], pa.int32()),
            "headers": pa.array([[{"key": "h", "value": b"1"}], []], HEADERS),
        }
    )
    producer = Taken()
    delivery = send_rows(producer, [batch], options())
    assert delivery.rows == 2
    assert producer.records == [
        ("orders", {"key": b"k", "value": "v", "partition": 0, "headers": [("h", b"1")]}),
        ("orders", {"key": None, "value": None}),
    ]


def test_the_option_goes_before_the_column():
    batch = pa.record_batch({"topic": ["a", "b"], "value": ["1", "2"]})
    named, free = Taken(), Taken()
    send_rows(named, [batch], options("orders"))
    send_rows(free, [batch], options(None))
    assert [topic for topic, _ in named.records] == ["orders", "orders"]
    assert [topic for topic, _ in free.records] == ["a", "b"]


def test_a_row_without_a_topic_is_said():
    batch = pa.record_batch({"topic": ["a", None], "value": ["1", "2"]})
    with pytest.raises(UsageError, match="row 1 of a task has no topic"):
        send_rows(Taken(), [batch], options(None))


def test_a_full_producer_is_waited_for():
    batch = pa.record_batch({"value": [str(number) for number in range(25)]})
    producer = Taken(space=10)
    assert send_rows(producer, [batch], options()).rows == 25
    assert [record["value"] for _, record in producer.records] == [str(n) for n in range(25)]


def test_a_refused_record_ends_the_task_and_is_named():
    batch = pa.record_batch({"value": ["1"] * 5000, "partition": pa.array([2] * 5000, pa.int32())})
    producer = Taken(refusal=KafkaError(KafkaError.NOT_ENOUGH_REPLICAS))
    with pytest.raises(WriteFailed, match=r"`orders-2`: .*NOT_ENOUGH_REPLICAS") as caught:
        send_rows(producer, [batch], options())
    assert "hint: bring back replicas" in str(caught.value)
    assert len(producer.records) < 5000


def test_a_late_refusal_is_not_forgotten():
    producer = Taken(refusal=KafkaError(KafkaError._MSG_TIMED_OUT))
    delivery = send_rows(producer, [pa.record_batch({"value": ["1"]})], options())
    producer.flush()
    with pytest.raises(WriteFailed, match="`orders-0`"):
        delivery.check()


def test_a_record_that_is_too_large_is_refused_at_once():
    class TooSmall(Taken):
        def produce(self, topic, **record):
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))

    with pytest.raises(WriteFailed, match=r"`orders`: .*\nhint: raise `kafka.message.max.bytes`"):
        send_rows(TooSmall(), [pa.record_batch({"value": ["1"]})], options())


def test_every_refusal_crosses_process_borders():
    failure = write_failed("orders", 3, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    again = pickle.loads(pickle.dumps(failure))
    assert str(again) == str(failure)
    assert again.where == "orders-3"


@pytest.mark.parametrize(
    ("types", "topic", "message"),
    [
        ({"key": "string"}, "orders", "no column `value` among `key`"),
        ({"value": "bigint"}, "orders", "column `value` is bigint"),
        ({"value": "string"}, None, "no topic is given"),
        ({"value": "string", "partition": "bigint"}, "orders", "column `partition` is bigint"),
        ({"value": "string", "headers": "string"}, "orders", "column `headers` is string"),
    ],
)
def test_columns_that_do_not_fit_are_named(types, topic, message):
    with pytest.raises(UsageError, match=message):
        check_columns(types, options(topic))


def test_columns_that_are_not_written_are_left_alone():
    check_columns({"value": "binary", "offset": "bigint", "timestamp": "timestamp"}, options())


def test_an_option_that_the_client_does_not_know_is_said():
    with pytest.raises(UsageError, match=r"flux\.capacitor"):
        make_producer(options(**{"kafka.flux.capacitor": "on"}))

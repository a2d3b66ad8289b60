"""A directory with everything that a log can have is opened by the other kind, and given back.

One node, a controller and a broker, lives five times on one directory: Kafka's, ours, and so on,
ended twice by SIGTERM and twice by SIGKILL. Before each end the directory has a metadata snapshot,
a log that begins late, a cleaned log, logs that never had a record, an aborted transaction and an
open one, producers, and our events. What clients find afterwards is what they found before.
"""

import re
import signal
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.interop.java_tools import SHORT_LIVED
from tests.interop.kafka_node import ALONE, format_node
from tests.interop.mixed import NOT_SERVED, Mixed
from tests.interop.records import WAIT_S
from tidelog.client import AdminClient
from tidelog.client.blocking import Brokers
from tidelog.client.core.calls import request
from tidelog.client.core.values import Address
from tidelog.log.checkpoint import CLEANER_FILE, LOG_START_FILE
from tidelog.testing.waiting import wait_until
from tidelog.wire.api import ApiKey

TRIMMED, COMPACTED, PAID = "trimmed", "compacted", "paid"
FILES: Final = """\
metadata.log.max.record.bytes.between.snapshots=2000
log.flush.start.offset.checkpoint.interval.ms=500
log.flush.offset.checkpoint.interval.ms=500
log.initial.task.delay.ms=500
log.cleaner.backoff.ms=500
tidelog.events.enable=true
"""
OF_TOPICS: Final = {
    TRIMMED: {},
    COMPACTED: {
        "cleanup.policy": "compact",
        "segment.ms": "300",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "500",
    },
    PAID: {},
}
SAYS: Final = tuple(
    f"-Dorg.slf4j.simpleLogger.log.{name}=info"
    for name in ("kafka.log", "org.apache.kafka.storage", "org.apache.kafka.metadata.storage")
)
COMPLAINT: Final = re.compile(
    r"corrupt|rebuilding (time|ind)|failed to load|could not find|not valid"
    # Of its metadata log Kafka reads the last segment at every start.
    r"|recovering unflushed(?!.*__cluster_metadata)",
    re.IGNORECASE,
)
ROUND: Final = 100


class Record(NamedTuple):
    """A record as a client gets it."""

    offset: int
    key: bytes
    value: bytes
    timestamp_ms: int


class Found(NamedTuple):
    """What clients find in a topic."""

    log_start_offset: int
    records: list[Record]
    """As a reader of committed records finds them."""
    uncommitted: list[int]
    """Offsets that only other readers find."""
    producers: list[tuple[int, ...]]
    """Of each that has records in the log the id, epoch, last sequence, last timestamp,
    coordinator's epoch and the start of an open transaction. Of the others, whose records were
    deleted, our node knows nothing after a kill."""


class OneNode(Mixed):
    """The directory, and the clients that live on while it changes hands."""

    def __init__(self, place: Path) -> None:
        super().__init__(
            place, nodes=1, more_properties=ALONE + FILES, java_options=(*SHORT_LIVED, *SAYS)
        )
        format_node(self.file(1), self.file(1).read_text(), *NOT_SERVED)
        # Numbers of the records that are sent.
        self._numbers = count()
        # The newest topic that never had a record.
        self._unused = ""
        # The one whose transaction is open while the node changes its kind.
        open_for = {"transaction.timeout.ms": "600000"}
        self._payer = self._producer(**{"transactional.id": "payer"}, **open_for)

    def _producer(self, **settings: str) -> Producer:
        common = {"bootstrap.servers": self.servers, "log_level": 0, "enable.idempotence": True}
        return Producer({**common, **settings})

    def make_topics(self) -> None:
        """Empty ones."""
        topics = [NewTopic(name, 1, 1, config=config) for name, config in OF_TOPICS.items()]
        admin = self.admin(1)
        for made in admin.create_topics(topics).values():
            made.result(WAIT_S)
        self._payer.init_transactions(WAIT_S)

    def send(self, producer: Producer, topic: str, amount: int = ROUND) -> None:
        """Records with ten keys, each acknowledged."""
        errors: list[object] = []
        for number in (next(self._numbers) for _ in range(amount)):
            key, value = b"k%d" % (number % 10), b"%d" % number
            producer.produce(topic, value, key, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(WAIT_S) == 0
        assert errors == [None] * amount, errors[:3]

    # What a life leaves behind -----------------------------------------------------------------

    def use(self) -> None:
        """All kinds of files get new content, and are on the disk."""
        self.trim()
        self.compact()
        self.pay()
        before, admin = self.snapshots(), self.admin(1)

        def another() -> bool:
            name = self._unused = f"more-{next(self._numbers)}"
            admin.create_topics([NewTopic(name, 1, 1)])[name].result(WAIT_S)
            return self.snapshots()[-1:] > before[-1:]

        wait_until(another, WAIT_S, "another metadata snapshot")

    def snapshots(self) -> list[str]:
        """Of the metadata, complete ones, the newest last."""
        found = (self.data(1) / "__cluster_metadata-0").glob("*-*.checkpoint")
        return sorted(each.name for each in found)

    def trim(self) -> None:
        """DeleteRecords up to the middle of what is new."""
        start = self.find(TRIMMED).log_start_offset
        self.send(self._producer(), TRIMMED)
        with AdminClient([self.servers], timeout_s=30) as admin:
            assert admin.delete_records(TRIMMED, 0, start + ROUND // 2) == start + ROUND // 2
        wanted = f"{TRIMMED} 0 {start + ROUND // 2}"
        file = self.data(1) / LOG_START_FILE
        wait_until(
            lambda: file.exists() and wanted in file.read_text().splitlines(), WAIT_S, wanted
        )

    def cleaned_to(self) -> int:
        """The end of what the cleaner has cleaned."""
        file = self.data(1) / CLEANER_FILE
        found = re.search(
            rf"^{COMPACTED} 0 (\d+)$", file.read_text() if file.exists() else "", re.M
        )
        return int(found[1]) if found else 0

    def compact(self) -> None:
        """The cleaner gets further than before."""
        before, producer = self.cleaned_to(), self._producer()

        def further() -> bool:
            self.send(producer, COMPACTED, 20)
            return self.cleaned_to() > before

        wait_until(further, WAIT_S, "a log that is cleaned further")

    def pay(self) -> None:
        """A transaction is committed, one aborted, and one stays open."""
        for ends in (self._payer.commit_transaction, self._payer.abort_transaction):
            self._payer.begin_transaction()
            self.send(self._payer, PAID)
            ends(WAIT_S)
        self._payer.begin_transaction()
        self.send(self._payer, PAID, 1)

    def end_open_transaction(self) -> None:
        """By the producer that began it, at the coordinator of the other kind."""
        before = self.find(PAID).records
        self._payer.commit_transaction(WAIT_S)
        (*others, _) = self.find(PAID).records
        assert others == before

    def begin_unused(self) -> None:
        """A log that the other kind has made gets its first record from this one."""
        assert self.find(self._unused).records == []
        self.send(self._producer(), self._unused, 1)
        assert [each.offset for each in self.find(self._unused).records] == [0]

    # What clients find -------------------------------------------------------------------------

    def find(self, topic: str) -> Found:
        """A topic as it is now."""
        start, committed = self.read(topic, "read_committed")
        _, everything = self.read(topic, "read_uncommitted")
        only = {each.offset for each in everything} - {each.offset for each in committed}
        address = Address("127.0.0.1", self.ports[1])
        asked = [{"name": topic, "partition_indexes": [0]}]
        with closing(Brokers([address], client_id="disks", timeout_s=30)) as brokers:
            answer = brokers.node(address, request(ApiKey.DESCRIBE_PRODUCERS, topics=asked))
        producers = [
            (
                *(each.producer_id, each.producer_epoch, each.last_sequence),
                *(each.last_timestamp, each.coordinator_epoch, each.current_txn_start_offset),
            )
            for each in answer.topics[0].partitions[0].active_producers
            if everything and each.last_timestamp >= everything[0].timestamp_ms
        ]
        return Found(start, committed, sorted(only), sorted(producers))

    def read(self, topic: str, isolation: str) -> tuple[int, list[Record]]:
        """The log start, and all records from there."""
        consumer, start = self._reader(topic, isolation)
        consumer.assign([TopicPartition(topic, 0, start)])
        found = []
        while not (message := consumer.poll(WAIT_S)).error():
            _, timestamp_ms = message.timestamp()
            found.append(Record(message.offset(), message.key(), message.value(), timestamp_ms))
        consumer.close()
        return start, found

    def _reader(self, topic: str, isolation: str) -> tuple[Consumer, int]:
        """A consumer that has found the leader, and the log start."""
        settings = {"bootstrap.servers": self.servers, "group.id": "reader", "log_level": 0}
        settings |= {"isolation.level": isolation, "enable.partition.eof": True}
        found: list[tuple[Consumer, int]] = []

        def is_led() -> bool:
            # A new one each time: librdkafka asks once for a partition without a leader.
            consumer = Consumer(settings)
            with suppress(KafkaException):
                low, _ = consumer.get_watermark_offsets(TopicPartition(topic, 0), WAIT_S)
                found.append((consumer, low))
            return bool(found)

        wait_until(is_led, WAIT_S, f"leader of `{topic}`")
        return found[0]

    def newest(self) -> dict[bytes, Record]:
        """The last record of each key of the compacted topic."""
        return {each.key: each for each in self.find(COMPACTED).records}

    def events(self) -> bytes:
        """Our file."""
        file = self.data(1) / "events.jsonl"
        return file.read_bytes() if file.exists() else b""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OneNode]:
    made = OneNode(tmp_path)
    yield made
    made.stop_all()


def change(node: OneNode, to_ours: bool, signal_number: int) -> str:
    """The other kind takes the directory over, and clients find what they found before. Returns
    what it said at its start."""
    node.use()
    topics = (TRIMMED, PAID)
    before = [node.find(topic) for topic in topics], node.newest()
    cleaned_to, snapshots = node.cleaned_to(), node.snapshots()
    (trimmed, paid), _ = before
    assert trimmed.log_start_offset > 0 and len(paid.uncommitted) % ROUND == 1
    assert cleaned_to > 0 and trimmed.producers and paid.producers[-1][-1] > 0
    node.stop(1, signal_number)
    assert any(file.stat().st_size for file in node.data(1).glob(f"{PAID}-0/*.txnindex"))
    events, said = node.events(), len(node.log(1).read_text())
    (node.start_ours if to_ours else node.start_kafka)(1)
    node.wait_for_brokers()
    for topic, wanted in zip(topics, before[0], strict=True):
        assert node.find(topic)._asdict() == wanted._asdict(), topic
    assert node.newest() == before[1]
    assert node.cleaned_to() >= cleaned_to and node.snapshots()[-1] >= snapshots[-1]
    node.end_open_transaction()
    node.begin_unused()
    assert node.events().startswith(events)
    assert (len(node.events()) > len(events)) == to_ours
    return node.log(1).read_text()[said:]


def test_every_file_is_read_by_the_other_kind_after_a_stop_and_after_a_kill(node: OneNode) -> None:
    node.start_kafka(1)
    node.wait_for_brokers()
    node.make_topics()
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        is_clean = signal_number == signal.SIGTERM
        ours = change(node, True, signal_number)
        assert not is_clean or not COMPLAINT.search(ours)
        kafkas = change(node, False, signal_number)
        assert ("Skipping recovery" in kafkas) == is_clean
        assert not is_clean or not COMPLAINT.search(kafkas)

"""VerifiedBeforeOpen: a transaction begins with an answer that is still good, in order, once."""

import pytest

from tests.unit.broker.api.test_k00_produce import transactional
from tests.unit.broker.one_node import OneNode
from tests.unit.broker.scripted_coordinator import ScriptedCoordinator
from tidelog.errors import ErrorCode
from tidelog.log.reading import as_buffer
from tidelog.model import ZERO_TOPIC_ID
from tidelog.records.batch import build_batch, stamp
from tidelog.records.compression import Codec
from tidelog.records.control import EndTxnMarker
from tidelog.records.record import Record
from tidelog.replication.messages import MarkerToWrite
from tidelog.wire import produce as wire_produce
from tidelog.wire.produce import ProducePartition, ProduceRequest

ADDS, OLD = 12, 11


class Bench:
    """A node, its coordinator, and a producer without patience."""

    def __init__(self, version=OLD, topic=None, **settings):
        self.node = OneNode(**settings)
        self.coordinator = ScriptedCoordinator(self.node)
        self.wire = self.node.client()
        self.wire.create_topic("t", 2, **(topic or {}))
        self.version = version
        self._sent = 0

    @property
    def log(self):
        return self.node.broker.replicas.partitions["t", 0].log

    def send(self, *batches, acks=-1):
        """One produce: a batch for partition 0, 1, ..."""
        parts = [
            ProducePartition("t", ZERO_TOPIC_ID, number, memoryview(batch))
            for number, batch in enumerate(batches)
        ]
        self._sent += 1
        request = ProduceRequest("tx", acks, 1000, parts)
        self.wire.send(wire_produce.pack_request(self.version, self._sent, "c", request))

    def codes(self):
        """Of all answers that have come, in order."""
        return [
            [ErrorCode(each.error_code) for each in answer.partitions]
            for frame in self.wire.frames()
            for _, answer in [wire_produce.parse_response(self.version, frame)]
        ]

    def mark(self, producer_epoch=0, *, bumps_epoch=False):
        """Another coordinator's marker for partition 0."""
        marker = MarkerToWrite("t", 0, 5, producer_epoch, EndTxnMarker(False, 0), bumps_epoch)
        self.node.broker.replicas.transactions.write_markers(
            [marker], "m", self.node.now, timeout_ms=1000
        )
        outputs = self.node.broker.replicas.take_outputs()
        self.node.broker.replicas.end_tick(self.node.now)
        outputs += self.node.broker.replicas.take_outputs()
        return [each.response.partitions[0].error_code for each in outputs]


@pytest.mark.parametrize(("version", "verify_only"), [(OLD, True), (ADDS, False)])
def test_the_first_batch_waits_and_the_next_does_not(version, verify_only):
    bench = Bench(version)
    bench.send(transactional(0))
    assert bench.codes() == [] and bench.log.log_end_offset == 0
    (asked,) = bench.coordinator.listen()
    (transaction,) = asked.transactions
    assert (transaction.transactional_id, transaction.verify_only) == ("tx", verify_only)
    bench.coordinator.answer()
    assert bench.codes() == [[ErrorCode.NONE]]
    assert (bench.log.log_end_offset, bench.log.last_stable_offset) == (1, 0)
    bench.send(transactional(1))
    assert bench.codes() == [[ErrorCode.NONE]] and bench.coordinator.listen() == []


def test_a_large_batch_is_looked_into_once_and_before_the_coordinator_is_asked():
    bench = Bench(topic={"cleanup_policy": "compact"})
    bench.node.computes_later = True
    records = [Record(1, b"k", bytes(1 << 20))]
    bench.send(
        build_batch(
            records,
            codec=Codec.ZSTD,
            producer_id=5,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
    )
    assert bench.coordinator.listen() == []
    bench.node.compute()
    bench.node.settle()
    assert len(bench.coordinator.listen()) == 1
    bench.coordinator.answer()
    assert bench.codes() == [[ErrorCode.NONE]]
    assert not bench.node.computes and bench.log.inspection_work == 0


def test_a_batch_that_waits_does_not_lie_in_the_buffer_of_its_request():
    """The next bytes of any connection overwrite that. A small packed batch for a topic that
    compacts is looked into at once, and then waits for the coordinator."""
    bench = Bench(topic={"cleanup_policy": "compact"})
    batch = build_batch(
        [Record(1, b"k", b"v" * 100)],
        codec=Codec.ZSTD,
        producer_id=5,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    bench.send(batch)
    bench.coordinator.answer()
    assert bench.codes() == [[ErrorCode.NONE]]
    found = bench.log.read(0, 1 << 20, 1, at_least_one=True)
    assert as_buffer(found.chunks) == stamp(batch, 0, bench.log.latest_epoch)
    bench.log.tail.clear()
    bench.log.verify()


@pytest.mark.parametrize("acks", [-1, 1])
def test_batches_behind_it_wait_in_order_and_share_the_answer(acks):
    bench = Bench()
    for sequence in range(3):
        bench.send(transactional(sequence), acks=acks)
    assert len(bench.coordinator.listen()) == 1
    bench.coordinator.answer()
    assert bench.codes() == [[ErrorCode.NONE]] * 3 and bench.log.log_end_offset == 3


def test_the_other_partitions_of_the_request_do_not_wait():
    bench = Bench()
    bench.send(transactional(0))
    bench.coordinator.answer()
    bench.send(transactional(1), transactional(0))
    assert bench.log.log_end_offset == 2
    bench.coordinator.answer()
    assert bench.codes() == [[ErrorCode.NONE], [ErrorCode.NONE, ErrorCode.NONE]]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("TRANSACTION_ABORTABLE", "TRANSACTION_ABORTABLE"),
        ("INVALID_PRODUCER_ID_MAPPING", "INVALID_PRODUCER_ID_MAPPING"),
        ("NOT_COORDINATOR", "NOT_ENOUGH_REPLICAS"),
        ("CONCURRENT_TRANSACTIONS", "NOT_ENOUGH_REPLICAS"),
    ],
)
def test_an_error_appends_nothing(answer, expected):
    bench = Bench()
    bench.send(transactional(0))
    bench.coordinator.answer(ErrorCode[answer])
    assert bench.codes() == [[ErrorCode[expected]]] and bench.log.log_end_offset == 0


@pytest.mark.parametrize("sequence", [0, -1])
def test_a_deposed_producer_is_refused_without_a_question(sequence):
    """Before anything else about its records, as in Kafka's `UnifiedLog`."""
    bench = Bench()
    bench.mark(producer_epoch=3)
    bench.send(transactional(sequence))
    assert bench.codes() == [[ErrorCode.INVALID_PRODUCER_EPOCH]]
    assert bench.coordinator.listen() == []


def test_a_coordinator_that_dies_is_asked_again_by_the_client():
    bench = Bench()
    bench.send(transactional(0))
    bench.coordinator.die()
    assert bench.codes() == [[ErrorCode.NOT_ENOUGH_REPLICAS]]
    bench.send(transactional(0))
    bench.coordinator.answer()
    assert bench.codes() == [[ErrorCode.NONE]]


def test_an_answer_that_comes_after_the_end_of_the_transaction_is_void():
    """Else the batch would open a transaction that no coordinator ends (R29)."""
    bench = Bench()
    bench.send(transactional(0))
    bench.coordinator.listen()
    assert bench.mark() == [ErrorCode.NONE]
    bench.coordinator.answer()
    assert bench.codes() == [[ErrorCode.INVALID_TXN_STATE]]
    assert bench.log.last_stable_offset == bench.log.log_end_offset == 1


def test_a_request_that_timed_out_is_not_appended_later():
    bench = Bench()
    bench.send(transactional(0))
    bench.node.advance(1100)
    assert bench.codes() == [[ErrorCode.REQUEST_TIMED_OUT]]
    bench.coordinator.answer()
    assert bench.log.log_end_offset == 0


def test_a_producer_whose_last_transaction_is_ending_is_asked_about_again():
    bench = Bench(ADDS)
    bench.send(transactional(0))
    bench.coordinator.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert bench.codes() == [] and bench.coordinator.listen() == []
    bench.node.advance(20)
    bench.coordinator.answer()
    assert bench.codes() == [[ErrorCode.NONE]]
    bench.send(transactional(0), transactional(0))
    for _ in range(6):
        bench.coordinator.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
        bench.node.advance(20)
        if not bench.coordinator.listen():
            break
    assert bench.codes() == [[ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS]]


def test_it_can_be_turned_off_for_clients_that_add_partitions_themselves():
    off = {"transaction_partition_verification_enable": "false"}
    bench = Bench(OLD, **off)
    bench.send(transactional(0))
    assert bench.codes() == [[ErrorCode.NONE]]
    bench = Bench(ADDS, **off)
    bench.send(transactional(0))
    assert bench.codes() == [] and len(bench.coordinator.listen()) == 1

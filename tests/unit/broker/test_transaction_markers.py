"""Goal: every partition of a transaction gets its marker, whatever becomes of its leader.

Method: a topic whose partition is led by broker 2, which exists only in the metadata. The test is
its other end: it takes requests apart and answers them.
"""

import pytest

from tests.unit.broker.api.transaction_client import Producer, add, begin, end, one_node
from tidelog.broker.transaction_markers import RETRY_MS
from tidelog.env.effects import Closed, CloseReason, Connected, Received
from tidelog.errors import ErrorCode
from tidelog.limits import MAX_MARKER_REQUESTS
from tidelog.model import NO_LEADER
from tidelog.transactions.records import TransactionState
from tidelog.wire import codec
from tidelog.wire.api import ApiKey, parse_header
from tidelog.wire.entities import Entity, make
from tidelog.wire.frames import FrameReader
from tidelog.wire.values import error_of, millis


class Bench:
    """A node that coordinates, and the leader of topic `far`."""

    def __init__(self) -> None:
        self.node = one_node()
        self.node.add_broker(2)
        self.wire = self.node.client()
        self.wire.create_topic("far", replicas=(2,))
        self._frames: dict[int, FrameReader] = {}
        # Requests that were not answered, with their connection.
        self.asked: list[tuple[int, int, Entity]] = []
        self._connected: set[int] = set()

    def producer(self, name: str = "x") -> Producer:
        """One with an open transaction in the far partition."""
        producer = begin(self.wire, name)
        assert add(self.wire, 3, producer, far=[0]) == {("far", 0): ErrorCode.NONE}
        return producer

    def state(self, name: str = "x") -> TransactionState:
        found = dict(self.node.broker.transactions.list_transactions() or ())
        return found[name].state

    def listen(self) -> list[Entity]:
        """Connects what asks for it, and takes the markers that have come."""
        for connect in self.node.connects:
            if connect.connection not in self._connected and connect.host == "host2":
                self._connected.add(connect.connection)
                self.node.receive(Connected(connect.connection))
        for number in sorted(self._connected):
            frames = self._frames.setdefault(number, FrameReader())
            for frame in frames.feed(bytes(self.node.sent.pop(number, b""))):
                header, position = parse_header(frame)
                if header.api_key is ApiKey.WRITE_TXN_MARKERS:
                    entity = codec.decode_request(header, bytes(frame), position)
                    self.asked.append((number, header.correlation_id, entity))
        return [entity for _, _, entity in self.asked]

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """Answers the oldest request."""
        number, correlation_id, request = self.asked.pop(0)
        version = request.__version__
        entity = make(
            codec.response_class(ApiKey.WRITE_TXN_MARKERS, version),
            markers=[
                {
                    "producer_id": marker.producer_id,
                    "topics": [
                        {
                            "name": topic.name,
                            "partitions": [
                                {"partition_index": each, "error_code": code}
                                for each in topic.partition_indexes
                            ],
                        }
                        for topic in marker.topics
                    ],
                }
                for marker in request.markers
            ],
        )
        frame = pack(version, correlation_id, entity)
        self.node.receive(Received(number, frame))

    def cut(self) -> None:
        """The connection of the oldest request breaks."""
        number, *_ = self.asked.pop(0)
        self._connected.discard(number)
        self.node.connects = [each for each in self.node.connects if each.connection != number]
        self.node.receive(Closed(number, CloseReason.PEER))


def pack(version: int, correlation_id: int, entity: Entity) -> bytes:
    request = make(codec.request_class(ApiKey.WRITE_TXN_MARKERS, version), markers=())
    header, _ = parse_header(codec.encode_request(request, correlation_id, None)[4:])
    return codec.encode_response(header, entity)


def ended() -> tuple[Bench, Producer]:
    bench = Bench()
    producer = bench.producer()
    assert error_of(end(bench.wire, 5, producer).error_code) is ErrorCode.NONE
    return bench, producer


def test_the_leader_gets_the_marker_and_then_the_transaction_is_complete():
    bench, producer = ended()
    (request,) = bench.listen()
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch) == (producer.producer_id, 1)
    assert (marker.transaction_result, marker.transaction_version) == (True, 2)
    assert [(each.name, each.partition_indexes) for each in marker.topics] == [("far", (0,))]
    assert bench.state() is TransactionState.PREPARE_COMMIT
    bench.answer()
    assert bench.state() is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        None,
    ],
)
def test_what_passes_is_tried_again(code):
    bench, _ = ended()
    for _ in range(3):
        bench.listen()
        if code is None:
            bench.cut()
        else:
            bench.answer(code)
        assert bench.state() is TransactionState.PREPARE_COMMIT
        bench.node.advance(RETRY_MS)
    bench.listen()
    bench.answer()
    assert bench.state() is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED]
)
def test_what_will_never_pass_is_done(code):
    bench, _ = ended()
    bench.listen()
    bench.answer(code)
    assert bench.state() is TransactionState.COMPLETE_COMMIT


def test_a_deleted_topic_needs_no_marker():
    bench, _ = ended()
    bench.listen()
    bench.wire.call(ApiKey.DELETE_TOPICS, 4, topic_names=("far",), timeout=millis(1000))
    bench.cut()
    bench.node.advance(RETRY_MS)
    assert bench.state() is TransactionState.COMPLETE_COMMIT


def test_a_partition_without_a_leader_is_waited_for():
    """Apache Kafka 4.3.1 takes it for deleted, and its records stay open (KAFKA-20734)."""
    bench = Bench()
    producer = bench.producer()
    bench.node.advance(bench.node.broker.config.broker.session_timeout_ms + 1000)
    assert bench.node.broker.image.topics_by_name["far"].partitions[0].leader == NO_LEADER
    assert error_of(end(bench.wire, 5, producer).error_code) is ErrorCode.NONE
    bench.node.advance(10 * RETRY_MS)
    assert bench.listen() == []
    assert bench.state() is TransactionState.PREPARE_COMMIT
    bench.node.add_broker(2)
    bench.node.advance(RETRY_MS)
    bench.listen()
    bench.answer()
    assert bench.state() is TransactionState.COMPLETE_COMMIT


def test_markers_that_come_while_a_leader_is_busy_travel_together():
    bench = Bench()
    names = [f"x{number}" for number in range(MAX_MARKER_REQUESTS + 4)]
    producers = [bench.producer(name) for name in names]
    for producer in producers:
        end(bench.wire, 5, producer)
    assert len(bench.listen()) == MAX_MARKER_REQUESTS
    bench.answer()
    requests = bench.listen()
    assert [len(each.markers) for each in requests] == [1] * (MAX_MARKER_REQUESTS - 1) + [4]
    for _ in requests:
        bench.answer()
    assert {bench.state(name) for name in names} == {TransactionState.COMPLETE_COMMIT}


def test_a_coordinator_that_goes_takes_its_markers_with_it():
    bench, _ = ended()
    bench.listen()
    seats = bench.node.broker.transactions
    for number, seat in list(seats._seats.items()):
        seats._fail(number, seat, "not led any more")
    bench.cut()
    bench.node.advance(10 * RETRY_MS)
    assert bench.listen() == []

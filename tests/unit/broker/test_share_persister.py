"""Calls to share coordinators: their order, what travels together, and what is tried again."""

from typing import Any

import pytest

from tidelog.broker import share_persister
from tidelog.broker.peers import Answered, Failed, PeerChannels, Purpose
from tidelog.broker.share_calls import RETRY_MS, SENT_VERSIONS
from tidelog.broker.share_persister import SharePersister
from tidelog.config import BrokerConfig, NodeConfig
from tidelog.env.effects import CloseReason, Connect, EffectQueue, Send
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.metadata.image import MetadataImage, PartitionImage, TopicImage
from tidelog.model import SHARES_TOPIC, Endpoint, TopicId
from tidelog.sharing.in_flight import Change
from tidelog.sharing.share_partition import SharePartition
from tidelog.sharing.values import RecordState, ShareKey, ShareSettings, ShareState, StateBatch
from tidelog.wire import codec
from tidelog.wire.api import ApiKey, parse_header
from tidelog.wire.entities import make
from tidelog.wire.frames import FrameReader

COORDINATOR = 2
KEY = ShareKey("g", TopicId(b"t" * 16), 0)


def image_of(leader: int = COORDINATOR) -> MetadataImage:
    partition = PartitionImage((1, 2), (1, 2), leader, 0, 0)
    topic = TopicImage(SHARES_TOPIC, TopicId(b"s" * 16), {0: partition})
    return MetadataImage(topics_by_name={SHARES_TOPIC: topic})


class Bench:
    """A node's calls, and the coordinator at the other end of its connection."""

    def __init__(self, image: MetadataImage | None = None) -> None:
        self.effects = EffectQueue()
        self.peers = PeerChannels(self.effects)
        endpoint = Endpoint("PLAINTEXT", "host2", 9092)
        self.peers.set_address(COORDINATOR, Purpose.SHARE_STATE, endpoint)
        config = NodeConfig(
            1, "d", (), (), (), "", {}, broker=BrokerConfig(request_timeout_ms=1000)
        )
        self.persister = SharePersister(config, self.peers)
        self.persister.on_image(image or image_of())
        self.now = Instant(0)
        self.connection = 0
        self.frames = FrameReader()
        self.asked: list[tuple[Any, Any]] = []
        self.ended: list[tuple[str, Any]] = []

    def share(self, key: ShareKey = KEY) -> SharePartition:
        return SharePartition(key, 3, ShareState(4, 5), ShareSettings())

    def read(self, name: str, key: ShareKey = KEY) -> None:
        self.persister.read(key, 3, lambda state, _: self.ended.append((name, state)), self.now)

    def write(self, name: str, share: SharePartition, *offsets: int) -> None:
        change = Change()
        change.batches += [StateBatch(o, o, RecordState.ACKNOWLEDGED, 1) for o in offsets]
        self.persister.write(
            share, change, lambda code, _: self.ended.append((name, code)), self.now
        )

    def listen(self) -> list[Any]:
        """The requests that have come and have no answer."""
        self.persister.flow(self.now)
        self.persister.check()
        self.peers.flush()
        for effect in self.effects.take():
            if isinstance(effect, Connect):
                self.connection, self.frames = effect.connection, FrameReader()
                self.peers.on_connected(effect.connection)
                return self.listen()
            if isinstance(effect, Send):
                for frame in self.frames.feed(b"".join(map(bytes, effect.chunks))):
                    data = bytes(frame)
                    header, offset = parse_header(data)
                    self.asked.append((header, codec.decode_request(header, data, offset)))
        return [entity for _, entity in self.asked]

    def answer(self, code: ErrorCode = ErrorCode.NONE, **state: Any) -> None:
        """Answers the oldest request, the same for each share partition."""
        header, request = self.asked.pop(0)
        row = {"error_code": code, "error_message": None, **state}
        if header.api_key is ApiKey.READ_SHARE_GROUP_STATE:
            row = {"state_epoch": 0, "start_offset": -1, "state_batches": (), **row}
        results = [
            {
                "topic_id": topic.topic_id,
                "partitions": [{"partition": each.partition, **row} for each in topic.partitions],
            }
            for topic in request.topics
        ]
        response_type = codec.response_class(header.api_key, SENT_VERSIONS[header.api_key])
        frame = codec.encode_response(header, make(response_type, results=results))
        self.peers.on_received(self.connection, frame)
        self.receive()

    def die(self) -> None:
        self.asked.clear()
        self.peers.on_closed(self.connection, CloseReason.PEER)
        self.receive()

    def receive(self) -> None:
        for output in self.peers.take_outputs():
            if isinstance(output, Answered):
                self.persister.on_answered(output.token, output.frame, self.now)
            elif isinstance(output, Failed):
                self.persister.on_failed(output.token, self.now)
        self.persister.check()

    def later(self, ms: int) -> list[Any]:
        self.now = Instant(self.now + ms)
        return self.listen()


def batches(row: Any) -> list[int]:
    return [each.first_offset for each in row.state_batches]


def test_a_state_is_read():
    bench = Bench()
    bench.read("r")
    (request,) = bench.listen()
    assert (request.group_id, request.topics[0].partitions[0].leader_epoch) == ("g", 3)
    row = {"first_offset": 7, "last_offset": 9, "delivery_state": 2, "delivery_count": 1}
    bench.answer(state_epoch=4, start_offset=7, state_batches=[row])
    assert bench.ended == [("r", ShareState(4, 7, [StateBatch(7, 9, 2, 1)]))]


def test_a_write_says_where_the_share_partition_is():
    bench = Bench()
    bench.write("w", bench.share(), 8)
    (request,) = bench.listen()
    row = request.topics[0].partitions[0]
    assert (row.state_epoch, row.leader_epoch, row.start_offset) == (4, 3, 5)
    assert (row.delivery_complete_count, batches(row)) == (0, [8])
    bench.answer(ErrorCode.FENCED_STATE_EPOCH)
    assert bench.ended == [("w", ErrorCode.FENCED_STATE_EPOCH)]


def test_calls_of_a_tick_about_one_group_travel_together():
    bench = Bench()
    other = KEY._replace(partition=1)
    bench.read("a")
    bench.read("b", other)
    bench.read("c", KEY._replace(group_id="h"))
    first, second = bench.listen()
    assert [row.partition for row in first.topics[0].partitions] == [0, 1]
    assert second.group_id == "h"


def test_one_call_is_under_way_for_each_share_partition():
    bench, share = Bench(), Bench().share()
    bench.write("one", share, 5)
    bench.listen()
    bench.write("two", share, 6)
    bench.write("three", share, 7)
    bench.write("again", share, 6)
    bench.read("read")
    assert len(bench.listen()) == 1
    bench.answer()
    (request,) = bench.listen()
    assert batches(request.topics[0].partitions[0]) == [6, 7]
    bench.answer()
    (request,) = bench.listen()
    assert batches(request.topics[0].partitions[0]) == [6]
    bench.answer()
    assert [name for name, _ in bench.ended] == ["one", "two", "three", "again"]
    (request,) = bench.listen()
    assert request.__api_key__ == ApiKey.READ_SHARE_GROUP_STATE


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ],
)
def test_what_a_coordinator_cannot_do_yet_is_tried_again_in_order(code):
    bench, share = Bench(), Bench().share()
    bench.write("one", share, 5)
    bench.listen()
    bench.read("two")
    bench.answer(code)
    assert bench.later(RETRY_MS - 1) == []
    (request,) = bench.later(1)
    assert batches(request.topics[0].partitions[0]) == [5]
    bench.answer()
    assert bench.ended == [("one", ErrorCode.NONE)]


def test_a_cut_connection_is_tried_again():
    bench = Bench()
    bench.write("w", bench.share(), 5)
    bench.listen()
    bench.die()
    assert bench.persister.deadline() == RETRY_MS
    assert len(bench.later(RETRY_MS)) == 1
    bench.answer()
    assert bench.ended == [("w", ErrorCode.NONE)]


def test_a_call_is_given_up_after_its_time():
    bench = Bench(image_of(leader=9))
    bench.read("r")
    while not bench.ended:
        assert bench.later(RETRY_MS) == []
        assert bench.now <= 1000
    assert bench.ended == [("r", ErrorCode.COORDINATOR_NOT_AVAILABLE)]
    assert bench.persister.deadline() is None


def test_a_new_image_ends_the_rest():
    bench = Bench(MetadataImage())
    bench.read("r")
    assert bench.listen() == []
    bench.persister.on_image(image_of())
    assert len(bench.listen()) == 1


def test_it_is_full_at_its_bound(monkeypatch):
    monkeypatch.setattr(share_persister, "MAX_SHARE_STATE_CALLS", 2)
    bench = Bench()
    bench.read("a")
    assert not bench.persister.is_full
    bench.read("b")
    assert bench.persister.is_full
    bench.listen()
    bench.answer()
    assert not bench.persister.is_full

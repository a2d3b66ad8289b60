"""Goal: what waits is bounded and never about the topic itself; the leader is found, and asked for
again when it does not take what it is given. Method: a scripted broker that takes or refuses."""

import asyncio
import threading

from tests.unit.client.scripted_brokers import ScriptedCluster, ScriptedPartition
from tidelog.env.event import EventRecord, Kind
from tidelog.errors import ErrorCode
from tidelog.model import ZERO_TOPIC_ID, Endpoint, TopicPartition
from tidelog.records.batch import decode_batch
from tidelog.runtime.event_topic import EVENTS_TOPIC, MOST_WAITING, EventTopic
from tidelog.wire.api import ApiKey
from tidelog.wire.produce import ProducedPartition, ProduceRequest, ProduceResponse

TIMEOUT_S = 20


def event(topic: str | None = "orders") -> EventRecord:
    """Some event."""
    return EventRecord(Kind.LEADING, topic, None if topic is None else 0, 1, {})


class Taker(ScriptedCluster):
    """Takes records after it has refused `refusals` requests."""

    def __init__(self, refusals: int = 0) -> None:
        super().__init__({TopicPartition(EVENTS_TOPIC, 0): ScriptedPartition([])}, nodes=1)
        self.refusals = refusals
        self.taken: list[bytes | None] = []
        self._changed = threading.Condition()
        self.answers = {ApiKey.PRODUCE: self._take}

    def wait_for(self, count: int) -> None:
        """Returns once so many records were taken."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.taken) >= count, TIMEOUT_S)

    def _take(self, request: ProduceRequest) -> ProduceResponse:
        (part,) = request.partitions
        assert (part.topic, part.partition) == (EVENTS_TOPIC, 0)
        assert part.records is not None
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if self.refusals else ErrorCode.NONE
        if self.refusals:
            self.refusals -= 1
        else:
            with self._changed:
                self.taken += [record.value for record in decode_batch(bytes(part.records))]
                self._changed.notify_all()
        done = ProducedPartition(EVENTS_TOPIC, ZERO_TOPIC_ID, 0, code, 0, -1, 0)
        return ProduceResponse([done])


async def published(cluster: Taker, lines: list[str], more: list[str]) -> None:
    """Runs until all lines were taken; `more` comes once the first have been."""
    ((host, port),) = cluster.addresses
    topic = EventTopic(Endpoint("PLAINTEXT", host, port), linger_s=0.001, retry_s=0.001)
    task = asyncio.create_task(topic.run())
    expected = 0
    for group in (lines, more):
        for line in group:
            topic.take(event(), line)
        expected += len(group)
        await asyncio.to_thread(cluster.wait_for, expected)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_lines_arrive_in_order_and_once() -> None:
    with Taker() as cluster:
        asyncio.run(published(cluster, ['{"seq":0}\n', '{"seq":1}\n'], ['{"seq":2}\n']))
        assert cluster.taken == [b'{"seq":0}', b'{"seq":1}', b'{"seq":2}']
        assert cluster.asked.count(ApiKey.METADATA) == 1


def test_who_refuses_is_not_believed_to_lead() -> None:
    with Taker(refusals=2) as cluster:
        asyncio.run(published(cluster, ["a"], ["b"]))
        assert cluster.taken == [b"a", b"b"]
        assert cluster.asked.count(ApiKey.METADATA) == 3


def test_events_about_the_topic_itself_are_not_published() -> None:
    topic = EventTopic(Endpoint("PLAINTEXT", "127.0.0.1", 1))
    topic.take(event(EVENTS_TOPIC), "x")
    topic.take(event(None), "y")
    assert list(topic._waiting) == [b"y"]


def test_the_oldest_go_when_no_broker_takes_them() -> None:
    topic = EventTopic(Endpoint("PLAINTEXT", "127.0.0.1", 1))
    for number in range(MOST_WAITING + 3):
        topic.take(event(), str(number))
    assert (len(topic._waiting), topic._waiting[0], topic.lost) == (MOST_WAITING, b"3", 3)

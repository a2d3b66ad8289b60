"""A node's events on the topic `__tidelog_events`, by the path that every client takes.

The node is a client of its own cluster here: it asks itself who leads partition 0, connects there
and produces, over sockets. Nothing of the core knows that the records are the node's own, so
nothing there can go wrong in a special way; and after a failover the next answer of Metadata leads
to the next leader. The first question creates the topic, with the replication factor and the
number of partitions that the cluster gives a topic by default.

**It never feeds itself.** Producing events moves that topic's high watermark, which is an event
again: events about the topic itself are not published. (They are in the file.)

Best effort: at most `MOST_WAITING` lines wait while nobody takes them, then the oldest are dropped
and counted. acks=1 without idempotence, so a line may be there twice after a failure; readers know
an event by (broker, incarnation, seq). The last lines of a process are only in its file.

Left out: `auto.create.topics.enable=false` (create the topic by hand), TLS and SASL.
"""

import asyncio
import time
from collections import deque
from contextlib import suppress
from itertools import count
from struct import Struct
from typing import Any, Final

from tidelog.env.event import EventRecord
from tidelog.errors import ErrorCode, MalformedFrame
from tidelog.model import NO_LEADER, ZERO_TOPIC_ID, Endpoint
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.wire import codec, produce
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import field, make, nested
from tidelog.wire.values import error_of

EVENTS_TOPIC: Final = "__tidelog_events"
MOST_WAITING: Final = 20_000
_BATCH: Final = 500
LINGER_S: Final = 0.2
RETRY_S: Final = 1.0
_TIMEOUT_S: Final = 10.0
_METADATA_VERSION: Final = 9
_PRODUCE_VERSION: Final = 9
_CLIENT_ID: Final = "tidelog-events"
_LENGTH: Final = Struct(">i")
_MAX_ANSWER_BYTES: Final = 16 << 20


class NotTaken(Exception):
    """The cluster did not take the lines this time."""


class EventTopic:
    """Publishes one node's events until it is cancelled."""

    def __init__(
        self, own: Endpoint, *, linger_s: float = LINGER_S, retry_s: float = RETRY_S
    ) -> None:
        # How long lines gather before they leave together, and the pause after a failure.
        self._linger_s = linger_s
        self._retry_s = retry_s
        # The node's own broker listener, where it asks who leads.
        self._own = own
        # Lines that nobody has taken yet, the oldest first.
        self._waiting: deque[bytes] = deque()
        self._correlation_ids = count(1)
        # Lines that were dropped because nobody took them.
        self.lost = 0

    def take(self, event: EventRecord, line: str) -> None:
        """Lets a line wait for the next batch, unless it is about the topic itself."""
        if event.topic == EVENTS_TOPIC:
            return
        if len(self._waiting) >= MOST_WAITING:
            self._waiting.popleft()
            self.lost += 1
        self._waiting.append(line.rstrip("\n").encode())

    async def run(self) -> None:
        """Produces what waits, for ever; a failure is tried again after a moment."""
        while True:
            try:
                await self._publish()
            except (OSError, EOFError, TimeoutError, MalformedFrame, NotTaken):
                await asyncio.sleep(self._retry_s)

    async def _publish(self) -> None:
        """Finds the leader and stays with it as long as it takes what comes."""
        host, port = await self._leader()
        reader, writer = await asyncio.open_connection(host, port)
        try:
            while True:
                await asyncio.sleep(self._linger_s)
                if self._waiting:
                    await self._produce(reader, writer)
        finally:
            writer.close()

    async def _leader(self) -> tuple[str, int]:
        request_type = codec.request_class(ApiKey.METADATA, _METADATA_VERSION)
        topic_type = nested(request_type, "topics")
        request = make(
            request_type,
            topics=(make(topic_type, name=EVENTS_TOPIC),),
            allow_auto_topic_creation=True,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        framed = codec.encode_request(request, next(self._correlation_ids), _CLIENT_ID)
        reader, writer = await asyncio.open_connection(
            self._own.host or "127.0.0.1", self._own.port
        )
        try:
            frame = await _call(reader, writer, framed)
        finally:
            writer.close()
        _, answer = codec.decode_response(ApiKey.METADATA, _METADATA_VERSION, frame)
        return _leader_of(answer)

    async def _produce(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        now_ms = time.time_ns() // 1_000_000
        lines = [self._waiting[index] for index in range(min(_BATCH, len(self._waiting)))]
        batch = build_batch([Record(now_ms, None, line) for line in lines])
        part = produce.ProducePartition(EVENTS_TOPIC, ZERO_TOPIC_ID, 0, memoryview(batch))
        request = produce.ProduceRequest(None, 1, int(_TIMEOUT_S * 1000), [part])
        framed = produce.pack_request(
            _PRODUCE_VERSION, next(self._correlation_ids), _CLIENT_ID, request
        )
        oldest = self.lost
        frame = await _call(reader, writer, framed)
        _, answer = produce.parse_response(_PRODUCE_VERSION, frame)
        for produced in answer.partitions:
            if produced.error_code is not ErrorCode.NONE:
                raise NotTaken(produced.error_code.name)
        # While the answer was under way, the oldest may have been dropped for newer ones.
        for _ in range(len(lines) - (self.lost - oldest)):
            self._waiting.popleft()


async def _call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, framed: bytes) -> bytes:
    """One request, one answer; raises `OSError`, `EOFError`, `TimeoutError`, `MalformedFrame`."""
    async with asyncio.timeout(_TIMEOUT_S):
        writer.write(framed)
        await writer.drain()
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if not 0 < length <= _MAX_ANSWER_BYTES:
            raise MalformedFrame(f"an answer of `{length}` bytes")
        return await reader.readexactly(length)


def _leader_of(answer: Any) -> tuple[str, int]:
    """Where partition 0 is led; raises `NotTaken` while nobody leads it."""
    brokers = {int(broker.node_id): broker for broker in answer.brokers}
    for topic in answer.topics:
        for partition in topic.partitions:
            leader = brokers.get(int(field(partition, "leader_id", NO_LEADER)))
            if int(partition.partition_index) == 0 and leader is not None:
                return str(leader.host), int(leader.port)
        raise NotTaken(error_of(topic.error_code).name)
    raise NotTaken("no answer about the topic")


def stop_publishing(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[None]") -> None:
    """Ends `EventTopic.run`, once the loop itself has stopped."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        loop.run_until_complete(task)

"""A node's events on the topic `__tidelog_events`, by the path that every client takes.

The node is a client of its own cluster here: it asks itself for the leader of partition 0, connects
there and produces, over sockets. Nothing of the core knows that the records are the node's own, so
nothing there can go wrong in a special way; and after a failover the next answer of Metadata leads
to the next leader. The first question creates the topic, with the replication factor and the
number of partitions that the cluster gives a topic by default.

**It never feeds itself.** Producing events moves that topic's high watermark, which is an event
again: events about the topic itself are not published. (They are in the file.)

Best effort: at most `MOST_WAITING` lines wait while no leader takes them, then the oldest are
dropped and counted. acks=1 without idempotence, so a line may be there twice after a failure;
readers know an event by (broker, incarnation, seq). The last lines of a process are only in its
file.

Left out: `auto.create.topics.enable=false` (create the topic by hand), SASL.
"""

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import Final

from tidelog.client.core.calls import produce_call
from tidelog.client.core.errors import TryAgain, Unreachable
from tidelog.client.core.partitions import metadata_request, read_metadata
from tidelog.client.core.values import Address
from tidelog.client.security_options import PLAINTEXT, ClientSecurity
from tidelog.client.streams import TIMEOUT_S, StreamConnection
from tidelog.env.event import EventRecord
from tidelog.errors import ErrorCode
from tidelog.model import ZERO_TOPIC_ID, Endpoint, TopicPartition
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.wire.produce import ProducePartition, ProduceRequest

EVENTS_TOPIC: Final = "__tidelog_events"
MOST_WAITING: Final = 20_000
_BATCH: Final = 500
LINGER_S: Final = 0.2
RETRY_S: Final = 1.0
_CLIENT_ID: Final = "tidelog-events"


class EventTopic:
    """Publishes one node's events until it is cancelled."""

    def __init__(
        self,
        own: Endpoint,
        *,
        linger_s: float = LINGER_S,
        retry_s: float = RETRY_S,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        # How long lines gather before they leave together, and the pause after a failure.
        self._linger_s = linger_s
        self._retry_s = retry_s
        # What connections to brokers obey.
        self._security = security
        # The node's own broker listener, where it asks for the leader.
        self._own = Address(own.host or "127.0.0.1", own.port)
        # Lines that no leader has taken yet, the oldest first.
        self._waiting: deque[bytes] = deque()
        # Lines that were dropped because no leader took them.
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
            except (TryAgain, Unreachable):
                await asyncio.sleep(self._retry_s)

    async def _publish(self) -> None:
        """Finds the leader and stays with it as long as it takes what comes."""
        connection = await StreamConnection.open(await self._leader(), _CLIENT_ID, self._security)
        try:
            while True:
                await asyncio.sleep(self._linger_s)
                if self._waiting:
                    await self._produce(connection)
        finally:
            connection.close()

    async def _leader(self) -> Address:
        connection = await StreamConnection.open(self._own, _CLIENT_ID, self._security)
        try:
            answer = await connection.call(metadata_request([EVENTS_TOPIC], create=True))
        finally:
            connection.close()
        metadata = read_metadata(answer)
        leader = metadata.leader_of(TopicPartition(EVENTS_TOPIC, 0))
        return metadata.address_of(leader.node_id)

    async def _produce(self, connection: StreamConnection) -> None:
        now_ms = time.time_ns() // 1_000_000
        lines = [self._waiting[index] for index in range(min(_BATCH, len(self._waiting)))]
        batch = build_batch([Record(now_ms, None, line) for line in lines])
        part = ProducePartition(EVENTS_TOPIC, ZERO_TOPIC_ID, 0, memoryview(batch))
        oldest = self.lost
        request = ProduceRequest(None, 1, int(TIMEOUT_S * 1000), [part])
        answer = await connection.call(produce_call(request))
        for produced in answer.partitions:
            if produced.error_code is not ErrorCode.NONE:
                raise TryAgain(produced.error_code.name)
        # While the answer was under way, the oldest may have been dropped for newer ones.
        for _ in range(len(lines) - (self.lost - oldest)):
            self._waiting.popleft()


def stop_publishing(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[None]") -> None:
    """Ends `EventTopic.run`, once the loop itself has stopped."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        loop.run_until_complete(task)

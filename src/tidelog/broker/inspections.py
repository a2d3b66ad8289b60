"""Large batches of clients are looked into beside the loop, before the replicas get them.

Theory. A leader looks into a batch where its header does not decide (`log/validation.py`): topics
that compact, topics with a codec of their own, timestamps out of range. A few kilobytes may inflate
to many megabytes, and a megabyte takes milliseconds: in a turn of the loop each other client would
wait for them. So a batch is looked into at once only up to `limits.MAX_INSPECTED_AT_ONCE_BYTES`.
One with more in it goes to the driver, which has a thread for it (`Compute`), and the request waits
with all of its batches.

Order. What a client sends on the same connection behind such a request waits in its backlog, so its
batches are appended in the order in which they were sent; Kafka handles one request of a connection
after the other anyway. Requests of other connections are handled meanwhile. Leadership, min ISR,
sequences and transactions are asked about when the batch is appended, as ever: a batch that was
looked into in vain is refused then.

Bounds. One request is looked into at a time, in the order of arrival, so only one body is inflated
in memory. A connection has one such request, whose bytes count as held (`Connections.hold`). A
request whose connection has ended before it is done is dropped: nothing was acknowledged. One
without acks is appended all the same, since its client may have closed after its last batch.

Invariant: a connection waits for exactly one request here, or for none (*InspectedOnce*).
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

from tidelog.broker.connections import Connection, Connections
from tidelog.config import LogConfig
from tidelog.env.disk import Buffer
from tidelog.env.effects import Compute, Computed, EffectQueue, Rest
from tidelog.env.instant import Instant
from tidelog.errors import CorruptBatch
from tidelog.limits import BYTES_READ_PER_WORK
from tidelog.log.validation import AT_ONCE, WHOLE, Bounds, Judged, judge, looks_inside
from tidelog.model import TopicPartition
from tidelog.records.batch import CODEC_MASK, CRC_START, HEADER_BYTES, read_header
from tidelog.replication.replicas import Replicas
from tidelog.wire.produce import ProducePartition, ProduceRequest

GoOn: TypeAlias = Callable[[ProduceRequest, Mapping[int, Judged], Instant], None]
"""Gives a request to the replicas, with what is known of its batches by their places."""

_CODEC_AT: Final = CRC_START + 1
"""The byte of a batch that has its codec."""


@dataclass(slots=True, eq=False)
class _Inspection:
    """A request that waits for its batches."""

    connection: Connection
    request: ProduceRequest
    go_on: GoOn
    # What is known already.
    judged: dict[int, Judged]
    # What is to be looked into still, by its place in the request.
    left: deque[tuple[int, Callable[[Rest], Judged | None]]] = field(default_factory=deque)

    @property
    def is_wanted(self) -> bool:
        """Whether it is to be appended still."""
        return self.connection.open or self.request.acks == 0


class Inspections:
    """The requests of one node that wait for their batches."""

    def __init__(self, replicas: Replicas, connections: Connections, effects: EffectQueue) -> None:
        self._replicas = replicas
        self._connections = connections
        self._effects = effects
        # How much is looked into at once.
        self.at_once: Bounds = AT_ONCE
        # In the order of arrival; the driver looks into the first.
        self._waiting: deque[_Inspection] = deque()

    def may_be_long(self, part: ProducePartition) -> bool:
        """Whether a batch may take long to look into, if that has to be done: a cheap question, for
        each batch."""
        records = part.records
        if records is None or len(records) < HEADER_BYTES:
            return False
        return bool(records[_CODEC_AT] & CODEC_MASK) or len(records) > self.at_once.most_bytes

    def look(
        self,
        request: ProduceRequest,
        connection: Connection,
        go_on: GoOn,
        *,
        now: Instant,
        wall_ms: int,
    ) -> None:
        """Calls `go_on`, at once if that does not take long."""
        judged: dict[int, Judged] = {}
        late: list[tuple[int, TopicPartition, LogConfig]] = []
        for place, part in enumerate(request.partitions):
            key = TopicPartition(part.topic, part.partition)
            partition = self._replicas.partitions.get(key)
            if partition is None or partition.leadership is None or not self.may_be_long(part):
                continue
            records, config = part.records, partition.log.config
            assert records is not None, f"{partition} is sent nothing, and that takes long"
            if not _asks_for_more(records, config, wall_ms):
                continue
            found = None
            if len(records) <= self.at_once.most_bytes:
                found = judge(records, key, config, wall_ms, self.at_once)
            if found is not None:
                judged[place] = found
                continue
            self._replicas.work.spend(self.at_once.most_bytes // BYTES_READ_PER_WORK)
            late.append((place, key, config))
        if not late:
            go_on(request, judged, now)
            return
        # The request's frame does not outlive its turn.
        kept = [_kept(part) for part in request.partitions]
        size_bytes = sum(len(part.records or b"") for part in kept)
        self._connections.begin_alone(connection, size_bytes)
        inspection = _Inspection(connection, request._replace(partitions=kept), go_on, judged)
        for place, key, config in late:
            records = kept[place].records
            assert records is not None, f"batch {place} is gone"
            inspection.left.append((place, partial(judge, records, key, config, wall_ms, WHOLE)))
        self._waiting.append(inspection)
        if len(self._waiting) == 1:
            self._look_into_next()

    def on_computed(self, computed: Computed, now: Instant) -> int:
        """The driver has looked into a batch of the request that is first; returns the connection
        whose client pays for the time."""
        first, found = self._waiting[0], computed.result
        assert computed.subject is first, f"{computed} is not of the first request"
        assert isinstance(found, Judged), f"{found} is not a verdict"
        place, _ = first.left.popleft()
        # It has not taken any of this turn.
        first.judged[place] = found._replace(work=0)
        if not first.left or not first.is_wanted:
            self._waiting.popleft()
            if first.is_wanted:
                first.go_on(first.request, first.judged, now)
            if first.connection.open:
                self._connections.end_alone(first.connection)
        self._look_into_next()
        return first.connection.connection_id

    def _look_into_next(self) -> None:
        while self._waiting:
            first = self._waiting[0]
            if first.is_wanted:
                self._effects.emit(Compute(first.left[0][1], first))
                return
            self._waiting.popleft()

    def check(self) -> None:
        """InspectedOnce."""
        waiting = [each.connection for each in self._waiting if each.connection.open]
        assert len(waiting) == len(set(map(id, waiting))), "a connection waits for two requests"
        for connection in waiting:
            assert connection.alone_bytes, f"{connection.connection_id} does not wait"


def _asks_for_more(records: Buffer, config: LogConfig, wall_ms: int) -> bool:
    """Whether a leader looks into a batch. It refuses one whose header cannot be read."""
    try:
        return looks_inside(read_header(records), config, wall_ms)
    except CorruptBatch:
        return False


def _kept(part: ProducePartition) -> ProducePartition:
    records = part.records
    return part if records is None else part._replace(records=memoryview(bytes(records)))

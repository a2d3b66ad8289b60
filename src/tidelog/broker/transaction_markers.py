"""Markers on their way: the ends of transactions, to the leaders of all their partitions.

    wanted ──> queue ──> a request to the leader ──> written, or refused for good
                 ^              │
                 └── parked ────┘  no leader, no answer, an error that passes

A marker is a WriteTxnMarkers request (27) to the leader of a partition, this node's own partitions
included: it makes a connection to itself. Markers for one leader travel together, with at most
`limits.MAX_MARKER_REQUESTS` requests under way to it and `limits.MARKERS_PER_TURN` markers a turn.

| what comes back | what is done |
| --- | --- |
| no error | the partition is done |
| INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED | done: see below |
| any other error, or none at all | again after `RETRY_MS`, or when the metadata changes |

A partition that knows a newer epoch or coordinator has nothing of the transaction open any more. A
partition whose topic was deleted is done as well. A coordinator that goes takes its markers with
it: the next one sends its own.

Invariant: each marker of a coordinator is queued, parked or under way, once a partition.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tidelog.broker.features import version_for
from tidelog.broker.peers import PeerChannels, Purpose
from tidelog.broker.transaction_seats import TransactionSeats
from tidelog.config import NodeConfig
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.limits import MARKERS_PER_TURN, MAX_MARKER_REQUESTS
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.model import NO_LEADER, TopicPartition
from tidelog.transactions.messages import Marker
from tidelog.transactions.records import by_topic
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, make
from tidelog.wire.values import error_of

SENT_VERSION: Final = 2
SENT_VERSION_SINCE: Final = 30
"""`metadata.version` of Kafka 4.3: 4.1 does not know it."""
RETRY_MS: Final = 50
_DONE: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)

Markers = dict[Marker, list[TopicPartition]]


# Compared by identity: it is the token of a request.
@dataclass(frozen=True, slots=True, eq=False)
class MarkerRequest:
    """A request under way."""

    leader_id: int
    markers: Markers


@dataclass(slots=True, eq=False)
class TransactionMarkers:
    """The markers of one node's coordinators."""

    config: NodeConfig
    seats: TransactionSeats
    peers: PeerChannels
    # The newest image, for leaders.
    _image: MetadataImage = field(default=EMPTY_IMAGE, init=False)
    # Markers to be sent, in order.
    _queue: deque[tuple[Marker, TopicPartition]] = field(default_factory=deque, init=False)
    # Those for leaders that have as many requests under way as they may have, by leader.
    _behind: dict[int, Markers] = field(default_factory=dict, init=False)
    # Those that are tried again at `_retry_at`.
    _parked: list[tuple[Marker, TopicPartition]] = field(default_factory=list, init=False)
    # `None` while none is parked.
    _retry_at: Instant | None = field(default=None, init=False)
    # How many requests are under way to each leader.
    _under_way: dict[int, int] = field(default_factory=dict, init=False)
    # Markers that this tick may still send.
    _budget: int = field(default=0, init=False)
    # The last tick: what is left over asks for another one at once.
    _woken_at: Instant = field(default=Instant(0), init=False)

    def on_image(self, image: MetadataImage) -> None:
        """Leaders may have changed: what is parked is tried again."""
        self._image = image
        self._unpark()

    def _unpark(self) -> None:
        self._queue.extend(self._parked)
        self._parked.clear()
        self._retry_at = None

    # A tick -------------------------------------------------------------------------------

    def wake(self, now: Instant) -> None:
        """Begins a tick."""
        self._woken_at, self._budget = now, MARKERS_PER_TURN

    def flow(self, now: Instant) -> bool:
        """Takes what coordinators want, and sends a slice of all that waits."""
        wanted = self.seats.wanted
        if wanted:
            self._queue.extend((marker, each) for marker, all_ in wanted for each in all_)
            wanted.clear()
        if self._retry_at is not None and self._retry_at <= now:
            self._unpark()
        count = min(self._budget, len(self._queue))
        if not count:
            return False
        self._budget -= count
        fresh: dict[int, Markers] = {}
        for _ in range(count):
            marker, partition = self._queue.popleft()
            if self.seats.wants(marker):
                self._route(marker, partition, fresh, now)
        for leader_id, markers in fresh.items():
            self._send(leader_id, markers, now)
        return True

    def _route(
        self, marker: Marker, partition: TopicPartition, fresh: dict[int, Markers], now: Instant
    ) -> None:
        topic = self._image.topics_by_name.get(partition.topic)
        found = None if topic is None else topic.partitions.get(partition.partition)
        if found is None:
            self.seats.on_markers_written(marker, (partition,), now)
        elif found.leader == NO_LEADER or not self.peers.knows(found.leader, Purpose.MARKERS):
            self._park(((marker, partition),), now)
        else:
            is_busy = self._under_way.get(found.leader, 0) >= MAX_MARKER_REQUESTS
            where = self._behind if is_busy else fresh
            where.setdefault(found.leader, {}).setdefault(marker, []).append(partition)

    def _park(self, markers: Iterable[tuple[Marker, TopicPartition]], now: Instant) -> None:
        self._parked.extend(markers)
        if self._retry_at is None and self._parked:
            self._retry_at = Instant(now + RETRY_MS)

    def _send(self, leader_id: int, markers: Markers, now: Instant) -> None:
        self._under_way[leader_id] = self._under_way.get(leader_id, 0) + 1
        version = version_for(self._image.brokers.get(leader_id), SENT_VERSION, SENT_VERSION_SINCE)
        client_id = f"broker-{self.config.node_id}-markers"
        entity = request_of(markers, version)
        request = MarkerRequest(leader_id, markers)
        deadline = Instant(now + self.config.broker.request_timeout_ms)
        self.peers.ask(leader_id, Purpose.MARKERS, entity, client_id, request, deadline)

    # Answers ------------------------------------------------------------------------------

    def on_answered(self, token: object, frame: memoryview | bytes, now: Instant) -> None:
        """A leader answered. Raises `MalformedFrame`."""
        assert isinstance(token, MarkerRequest), f"unexpected token {token!r}"
        # The version before has the same answer.
        _, entity = codec.decode_response(ApiKey.WRITE_TXN_MARKERS, SENT_VERSION, frame)
        codes = {
            (result.producer_id, topic.name, each.partition_index): error_of(each.error_code)
            for result in entity.markers
            for topic in result.topics
            for each in topic.partitions
        }
        self._end(token)
        again: list[tuple[Marker, TopicPartition]] = []
        for marker, partitions in token.markers.items():
            written: list[TopicPartition] = []
            for each in partitions:
                # A partition that is left out has not been done.
                code = codes.get((marker.producer_id, *each), ErrorCode.UNKNOWN_SERVER_ERROR)
                if code is ErrorCode.NONE:
                    written.append(each)
                elif code in _DONE:
                    self.seats.on_markers_written(marker, (each,), now, refusal=code)
                else:
                    again.append((marker, each))
            if written:
                self.seats.on_markers_written(marker, written, now)
        self._park(again, now)

    def on_failed(self, token: object, now: Instant) -> None:
        """A leader did not answer: it may have written the markers or not."""
        assert isinstance(token, MarkerRequest), f"unexpected token {token!r}"
        self._end(token)
        self._park(_pairs(token.markers), now)

    def _end(self, request: MarkerRequest) -> None:
        """A request is over; what has gathered for its leader meanwhile goes on."""
        self._under_way[request.leader_id] -= 1
        self._queue.extend(_pairs(self._behind.pop(request.leader_id, {})))

    def deadline(self) -> Instant | None:
        """At once while anything is queued; else when what is parked is tried again."""
        return self._woken_at if self._queue else self._retry_at

    def check(self) -> None:
        """Asserts that nothing waits for an answer that cannot come."""
        assert bool(self._parked) == (self._retry_at is not None), f"{self._parked} is forgotten"
        for leader_id in self._behind:
            assert self._under_way.get(leader_id), f"markers for {leader_id} wait for no answer"


def _pairs(markers: Markers) -> list[tuple[Marker, TopicPartition]]:
    return [(marker, each) for marker, partitions in markers.items() for each in partitions]


def request_of(markers: Markers, version: int = SENT_VERSION) -> Entity:
    """WriteTxnMarkers with these markers."""
    return make(
        codec.request_class(ApiKey.WRITE_TXN_MARKERS, version),
        markers=[
            {
                "producer_id": marker.producer_id,
                "producer_epoch": marker.producer_epoch,
                "transaction_result": marker.is_commit,
                "topics": [
                    {"name": topic, "partition_indexes": numbers}
                    for topic, numbers in by_topic(partitions).items()
                ],
                "coordinator_epoch": marker.coordinator_epoch,
                "transaction_version": marker.client_version,
            }
            for marker, partitions in markers.items()
        ],
    )

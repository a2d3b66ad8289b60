"""Consumers: they read every partition from its beginning, in order, for as long as they live.

A consumer has one fetch in flight per node, naming the partitions that it reads there. Each answer
with records is one poll of the history. Positions only move forward; now and then a consumer is
replaced by a new one that starts from the beginning (`ASSIGN` with a seek).

Everything that an answer shows is checked on the spot, because a client is the one that suffers:
checksums, offsets that are dense and begin where the fetch asked, no record at or above the high
watermark that the answer has, and no position that the log does not have (`NoSpuriousReset`).
"""

from dataclasses import dataclass
from typing import Final

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.kraft.committed import contiguous
from tidelog.records.batch import batch_size_at, decode_batch
from tidelog.sim.evidence.history import History, Key, Polled
from tidelog.sim.report.violation import Violation
from tidelog.sim.workloads.cluster_view import ClusterView, Place
from tidelog.wire import fetch as wire_fetch
from tidelog.wire.fetch import FetchedPartition, FetchPartition, FetchRequest

FETCH_VERSION: Final = 16
REFRESH_MS: Final = 1_000

_RETRIABLE: Final = frozenset(
    (
        # By a node that does not know yet that the right was given (again).
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    )
)


@dataclass(slots=True)
class ReadOptions:
    """How a consumer reads."""

    max_bytes: int = 1 << 20
    max_wait_ms: int = 300
    from_followers: bool = False
    """Reads from any replica that answers."""
    rack: str = ""
    """Of the consumer: leaders send it to a follower in its rack (KIP-392)."""


class Consumer:
    """One client that reads everything."""

    def __init__(
        self, view: ClusterView, history: History, prng: Prng, options: ReadOptions
    ) -> None:
        self.view = view
        # Next offset to read, by key.
        self.positions: dict[Key, int] = {}
        # What the last answer of each key said was committed.
        self.high_watermarks: dict[Key, int] = {}
        self.stopped = False
        # Of the process in the history.
        self.name = view.name
        self._history = history
        self._prng = prng
        self._options = options
        self._world = view.world
        # What the fetch in flight asks for: by node, the offset of each key.
        self._in_flight: dict[int, dict[Key, int]] = {}
        # The replica to read a key from instead of its leader.
        self.favourites: dict[Key, int] = {}
        # Keys that wait for new metadata.
        self._lost: set[Key] = set()
        # Incremented by a seek: answers to older fetches are thrown away.
        self._generation = 0

    def start(self) -> None:
        """Begins to read all that there is."""
        self.view.refresh(self._go_on)

    def stop(self) -> None:
        """Reads no more."""
        self.stopped = True

    def rewind(self) -> None:
        """Starts again from the beginning, as a new process would."""
        self.positions = dict.fromkeys(self.positions, 0)
        self._generation += 1
        self._history.assign(self.name, tuple(self.positions), sought=True, at=self._world.now)

    def _go_on(self) -> None:
        if self.stopped:
            return
        for key in self.view.places:
            self.positions.setdefault(key, 0)
        for node_id in self.view.brokers:
            self._fetch(node_id)
        pause = self._prng.between(REFRESH_MS // 2, REFRESH_MS * 2)
        self._world.at(pause, lambda: self.view.refresh(self._go_on))

    def _source(self, key: Key, place: Place) -> int:
        if not self._options.from_followers:
            return self.favourites.get(key, place.leader)
        favourite = self.favourites.get(key)
        if favourite is None:
            favourite = self.favourites[key] = self._prng.choice(place.replicas)
        return favourite

    def _fetch(self, node_id: int) -> None:
        if self.stopped or node_id in self._in_flight:
            return
        busy = {key for in_flight in self._in_flight.values() for key in in_flight} | self._lost
        places = {
            key: place
            for key, place in self.view.places.items()
            if key in self.positions and key not in busy and self._source(key, place) == node_id
        }
        if not places:
            return
        max_bytes = self._options.max_bytes
        asked = {key: self.positions[key] for key in places}
        wanted = [
            FetchPartition(
                "", at.topic_id, at.partition, at.leader_epoch, asked[key], -1, -1, max_bytes
            )
            for key, at in places.items()
        ]
        session = self.view.session(node_id)
        bounds = (self._options.max_wait_ms, 1, max_bytes)
        request = FetchRequest(-1, -1, *bounds, 0, 0, -1, wanted, [], self._options.rack)
        self._in_flight[node_id] = asked
        frame = wire_fetch.pack_request(FETCH_VERSION, session.correlation_id, self.name, request)
        invoked_at, generation = self._world.now, self._generation
        session.request(
            frame, lambda answer: self._on_answer(node_id, invoked_at, generation, answer)
        )

    def _on_answer(
        self, node_id: int, invoked_at: int, generation: int, frame: bytes | None
    ) -> None:
        asked = self._in_flight.pop(node_id)
        if self.stopped or generation != self._generation:
            self._fetch(node_id)
            return
        if frame is None:
            for lost in asked:
                self._lose(lost)
            return
        _, response = wire_fetch.parse_response(FETCH_VERSION, frame)
        ids = {
            (self.view.places[key].topic_id, key.partition): key
            for key in asked
            if key in self.view.places
        }
        polled = {
            key: found
            for part in response.partitions
            if (key := ids.get((part.topic_id, part.partition))) is not None
            and (found := self._take(key, asked[key], part, node_id))
        }
        if polled:
            self._history.poll(
                self.name, polled, invoked_at=invoked_at, completed_at=self._world.now
            )
        self._world.at(0 if polled else 1, lambda: self._fetch(node_id))

    def _lose(self, key: Key) -> None:
        """Reads a key again only when new metadata is in."""
        if key in self._lost:
            return
        self._lost.add(key)
        self.favourites.pop(key, None)

        def again() -> None:
            self._lost.discard(key)
            for node_id in self.view.brokers:
                self._fetch(node_id)

        self.view.refresh(again)

    def _take(
        self, key: Key, asked: int, part: FetchedPartition, node_id: int
    ) -> tuple[Polled, ...]:
        code = part.error_code
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            if self._options.from_followers or key in self.favourites:
                self._lose(key)
                return ()
            text = f"{self.name} {key} at {asked} is out of range on node {node_id}"
            raise Violation("NoSpuriousReset", text)
        if code is not ErrorCode.NONE:
            if code not in _RETRIABLE:
                raise Violation("ErrorCodeTruth", f"{self.name} {key} got {code.name}")
            self._lose(key)
            return ()
        if part.preferred_read_replica >= 0:
            self.favourites[key] = part.preferred_read_replica
            return ()
        self.high_watermarks[key] = part.high_watermark
        polled = records_of(part, asked, f"{self.name} {key} from node {node_id}")
        if polled:
            self.positions[key] = polled[-1].offset + 1
        return polled


def records_of(part: FetchedPartition, asked: int, who: str) -> tuple[Polled, ...]:
    """The records of an answer from the offset asked for; checks all that an answer can show."""
    data = contiguous(part.records)
    found: list[Polled] = []
    expected, position = -1, 0
    while (size_bytes := batch_size_at(data, position)) is not None:
        end = position + size_bytes
        if end > len(data):
            break
        batch, position = data[position:end], end
        for record in decode_batch(batch):
            if expected >= 0 and record.offset != expected:
                raise Violation("DenseOffsets", f"{who}: {record.offset} after {expected - 1}")
            expected = record.offset + 1
            if record.offset >= part.high_watermark:
                text = f"{who}: {record.offset} with high watermark {part.high_watermark}"
                raise Violation("ReadsBelowHighWatermark", text)
            if record.offset >= asked:
                assert record.value is not None, f"{who}: a record without value"
                found.append(Polled(record.offset, record.value.decode()))
    if found and found[0].offset != asked:
        raise Violation("DenseOffsets", f"{who}: asked {asked}, got {found[0].offset}")
    return tuple(found)

"""A client with a topic whose records do not stay: it is compacted, or cut by retention and by
DeleteRecords, as the run has drawn it.

The client writes batches of keyed records, a few at a time, with values that are never written
again and now and then without a value (a tombstone). A batch may have records with timestamps far
apart. Meanwhile it reads the topic from the beginning on, again and again, and deletes records.

Checked at once:

- OffsetsKeepTheirMeaning: an offset has the same key and value whenever it is read, and those that
  its writer was answered with.
- NoSpuriousReset: only an offset below the log start of the leader is out of range.

and in the end, when all was read once more:

- NewestOfEachKey: the newest record of each key is there, unless it is below the log start or has
  no value.

What may be missing of a replica, and when, is judged by `LogMatching`, `ReplicasEqual` and
`LogStartIsLawful`.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.kraft.committed import contiguous
from tidelog.model import ZERO_TOPIC_ID, TopicPartition
from tidelog.records.batch import build_batch, decode_body, iter_headers
from tidelog.records.record import Record
from tidelog.sim.engine.formation import WALL_START_MS
from tidelog.sim.evidence.history import History
from tidelog.sim.report.violation import Violation
from tidelog.sim.workloads.admin import Admin
from tidelog.sim.workloads.cluster_view import KEYED_TOPIC, Answered, ClusterView, request
from tidelog.wire import codec
from tidelog.wire import fetch as wire_fetch
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.fetch import FetchedPartition, FetchPartition, FetchRequest
from tidelog.wire.values import error_of, millis

FETCH_VERSION: Final = 12
PAUSE_MS: Final = 100
MAX_BYTES: Final = 4096
KEYS: Final = 15
IN_FLIGHT: Final = 3
OLD_MS: Final = 3_600_000
"""How far back the timestamp of an old record lies."""
_PARTITION: Final = TopicPartition(KEYED_TOPIC, 0)


class _Kept(NamedTuple):
    """What an offset has."""

    key: bytes | None
    value: bytes | None


class KeyedClient:
    """One client that writes, reads and deletes."""

    def __init__(
        self, view: ClusterView, history: History, prng: Prng, configs: Mapping[str, str]
    ) -> None:
        self._view = view
        self._history = history
        self._admin = Admin(view, history)
        self._prng = prng
        self._configs = configs
        self._value_count = 0
        # What was read or acknowledged, by offset.
        self._known: dict[int, _Kept] = {}
        # Keys of tombstones whose outcome is not known: they may be in the log.
        self._maybe_deleted: set[bytes | None] = set()
        # The offsets of the last reading from the beginning, up to the next one to read.
        self._read: dict[int, _Kept] = {}
        self._position = 0
        # Where that reading began, at the log start or below it.
        self._began_at = 0
        # Requests that write or delete, and are repeated until the client stops.
        self._writing = 0
        # The topic is there; no more writes; the last reading has begun, and is complete.
        self._has_topic = self._stopped = self._reads_last = self._has_all = False

    @property
    def name(self) -> str:
        """Of the client."""
        return self._view.name

    @property
    def is_settled(self) -> bool:
        """Whether everything was read since the last write."""
        return self._has_all or not self._has_topic

    def start(self) -> None:
        """Creates the topic, then goes on and on."""

        def done(code: ErrorCode | None) -> None:
            self._has_topic = code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            self._later(self._begin if self._has_topic else self.start)

        if not self._stopped:
            self._admin.create(KEYED_TOPIC, 1, self._configs, done)

    def stop(self) -> None:
        """Writes nothing more."""
        self._stopped = True

    def _begin(self) -> None:
        self._writing = IN_FLIGHT
        for _ in range(IN_FLIGHT):
            self._write()
        self._fetch()

    def _later(self, action: Callable[[], None]) -> None:
        self._view.world.at(self._prng.between(PAUSE_MS // 4, PAUSE_MS * 2), action)

    def _ask(self, wanted: Entity, answered: Answered) -> None:
        """Asks the leader; no answer where there is none."""
        leader = self._view.leader_of(*_PARTITION)
        if leader is None:
            self._view.refresh(lambda: answered(None))
            return
        session = self._view.session(leader)
        key, version = wanted.__api_key__, wanted.__version__

        def done(frame: bytes | None) -> None:
            if frame is None:
                self._view.refresh(lambda: answered(None))
            else:
                answered(codec.decode_response(key, version, frame)[1])

        session.request(codec.encode_request(wanted, session.correlation_id, self.name), done)

    # Writing -------------------------------------------------------------------------------

    def _write(self) -> None:
        if self._stopped:
            self._writing -= 1
        elif "delete" in self._configs.get("cleanup.policy", "") and self._prng.chance(1, 20):
            self._delete()
        else:
            self._produce()

    def _produce(self) -> None:
        records = [self._draw() for _ in range(self._prng.between(1, 4))]
        part = {"index": 0, "records": build_batch(records)}
        wanted = request(
            ApiKey.PRODUCE,
            11,
            transactional_id=None,
            acks=-1,
            timeout=millis(2_000),
            topic_data=[{"name": KEYED_TOPIC, "partition_data": [part]}],
        )

        def answered(response: Entity | None) -> None:
            row = None if response is None else response.responses[0].partition_responses[0]
            if row is not None and error_of(row.error_code) is ErrorCode.NONE:
                for index, record in enumerate(records):
                    self._note(row.base_offset + index, _Kept(record.key, record.value))
            else:
                self._maybe_deleted |= {one.key for one in records if one.value is None}
                self._view.refresh(lambda: None)
            self._later(self._write)

        self._ask(wanted, answered)

    def _draw(self) -> Record:
        self._value_count += 1
        now_ms = WALL_START_MS + self._view.world.now
        timestamp = now_ms - (OLD_MS if self._prng.chance(1, 3) else 0)
        value = None if self._prng.chance(1, 4) else b"%d" % self._value_count * 20
        return Record(timestamp, b"k%d" % self._prng.below(KEYS), value)

    def _delete(self) -> None:
        """Deletes what is below an offset that was read, now and then everything that was."""
        offset = self._prng.between(0, self._position)
        asked = self._history.deleted_below
        asked[_PARTITION] = max(asked.get(_PARTITION, 0), offset)
        row = {"partition_index": 0, "offset": offset}
        topics = [{"name": KEYED_TOPIC, "partitions": [row]}]
        wanted = request(ApiKey.DELETE_RECORDS, 2, topics=topics, timeout=millis(2_000))
        self._view.world.note(f"world deletes records of {_PARTITION} below {offset}")
        self._ask(wanted, lambda _: self._later(self._write))

    # Reading -------------------------------------------------------------------------------

    def _fetch(self) -> None:
        leader = self._view.leader_of(*_PARTITION)
        if leader is None:
            self._view.refresh(lambda: None)
            self._later(self._fetch)
            return
        session, offset = self._view.session(leader), self._position
        epoch = self._view.epoch_of(*_PARTITION)
        want = FetchPartition(KEYED_TOPIC, ZERO_TOPIC_ID, 0, epoch, offset, -1, -1, MAX_BYTES)
        wanted = FetchRequest(-1, -1, 300, 1, MAX_BYTES, 0, 0, -1, [want], [], "")
        frame = wire_fetch.pack_request(FETCH_VERSION, session.correlation_id, self.name, wanted)

        def done(answer: bytes | None) -> None:
            if answer is None:
                self._view.refresh(lambda: None)
                self._later(self._fetch)
            else:
                _, response = wire_fetch.parse_response(FETCH_VERSION, answer)
                self._on_fetched(leader, offset, response.partitions[0])

        session.request(frame, done)

    def _on_fetched(self, leader: int, offset: int, part: FetchedPartition) -> None:
        if part.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._position = self._began_at = self._start_of(leader, offset)
            self._read.clear()
            self._later(self._fetch)
        elif part.error_code is not ErrorCode.NONE:
            self._view.refresh(lambda: None)
            self._later(self._fetch)
        else:
            self._take(part)
            if self._position >= part.high_watermark:
                self._on_end()
            self._view.world.at(1, self._fetch)

    def _start_of(self, leader: int, offset: int) -> int:
        """The log start of a leader, of which an offset is out of range."""
        node = self._view.world.hosts[leader].node
        replica = None if node is None else node.broker.replicas.partitions.get(_PARTITION)
        if replica is None or replica.leadership is None:
            return offset
        if offset >= replica.log.log_start_offset:
            raise Violation("NoSpuriousReset", f"{_PARTITION} at {offset} on node {leader}")
        return replica.log.log_start_offset

    def _take(self, part: FetchedPartition) -> None:
        data = contiguous(part.records)
        for place, header in iter_headers(data):
            if place + header.size_bytes > len(data):
                break
            for record in decode_body(data, place, header):
                if record.offset >= self._position:
                    kept = _Kept(record.key, record.value)
                    self._note(record.offset, kept)
                    self._read[record.offset] = kept
            self._position = max(self._position, header.last_offset + 1)

    def _note(self, offset: int, kept: _Kept) -> None:
        known = self._known.setdefault(offset, kept)
        if known != kept:
            raise Violation("OffsetsKeepTheirMeaning", f"{offset} was {known}, it is {kept}")

    def _on_end(self) -> None:
        """All that there is was read: now and then once more, and after the last write."""
        if self._reads_last:
            self._has_all = True
        elif not self._writing or self._prng.chance(1, 10):
            self._reads_last = not self._writing
            self._read.clear()
            self._position = self._began_at = 0

    def judge(self) -> None:
        """At the end, when all is read."""
        if not self._has_topic:
            return
        newest = _newest(self._read)
        for key, offset in _newest(self._known).items():
            if offset < self._began_at or newest.get(key, -1) >= offset:
                continue
            if self._known[offset].value is not None and key not in self._maybe_deleted:
                text = f"{key!r} at {offset} is gone, the reading began at {self._began_at}"
                raise Violation("NewestOfEachKey", text)


def _newest(kept: Mapping[int, _Kept]) -> dict[bytes | None, int]:
    """The newest offset of each key."""
    found: dict[bytes | None, int] = {}
    for offset in sorted(kept):
        found[kept[offset].key] = offset
    return found

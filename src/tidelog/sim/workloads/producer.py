"""Producers: what they send, what they may pipeline, and what an answer lets them conclude.

Three kinds, as real clients have them:

- IDEMPOTENT: acks=all, a producer id, up to five batches in flight per partition. A batch that
  got no good answer is sent again with the same sequence, with all that follow it, in order, until
  it is acknowledged. So each value must be in the log exactly once, in order. A leader knows the
  last five batches of a producer, so none is sent that is more than five after the oldest without
  an outcome, though those between may be acknowledged (one timed out, the next did not); repeated
  once more, the oldest would be out of order for a leader that has them all. The first batch of a
  lane travels alone: of a producer that it does not know a leader takes any sequence, so with a
  second batch behind a refused first one the log would begin in the middle.
- ALL: acks=all without a producer id, one attempt. No answer means that it is unknown.
- LEADER, NONE: acks=1 and acks=0, one attempt; nothing is promised.

A *lane* is what one producer does on one partition. An idempotent lane never gives up: after the
faults everything must be acknowledged (`EverySendIsResolved`), unless its topic was deleted.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.records.batch import build_batch
from tidelog.records.compression import Codec
from tidelog.records.record import Record
from tidelog.sim.engine.formation import WALL_START_MS
from tidelog.sim.evidence.history import History, Key, Outcome, Sent
from tidelog.sim.report.violation import Violation
from tidelog.sim.workloads.cluster_view import ClusterView, request
from tidelog.wire import produce as wire_produce
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.produce import ProducePartition, ProduceRequest
from tidelog.wire.values import millis

PRODUCE_VERSION: Final = 13
INIT_VERSION: Final = 4
MAX_IN_FLIGHT: Final = 5

_RETRIABLE: Final = frozenset(
    (
        # By a node that does not know yet that the right was given (again).
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_TIMESTAMP,
    )
)
_NOT_WRITTEN: Final = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_RECORD,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )
)


class Acks(Enum):
    """The kinds of producers."""

    IDEMPOTENT = "idempotent"
    ALL = "all"
    LEADER = "leader"
    NONE = "none"

    @property
    def number(self) -> int:
        """As Produce has it."""
        return {Acks.LEADER: 1, Acks.NONE: 0}.get(self, -1)


@dataclass(slots=True, eq=False)
class _Batch:
    values: list[str]
    invoked_at: int
    number: int
    """Of its lane, from 0."""
    sequence: int = -1
    connection: int = 0
    """That a plain producer sent it over; an idempotent one's order does not depend on it."""
    sent: bool = False
    """Sent in this round, and without an answer."""


@dataclass(slots=True, eq=False)
class Lane:
    """One producer on one partition."""

    key: Key
    # Unresolved batches in order; at most `MAX_IN_FLIGHT` of them are sent.
    batches: deque[_Batch] = field(default_factory=deque)
    # Of all batches there ever were.
    batch_count: int = 0
    next_sequence: int = 0
    # The leader knows this producer: some batch was acknowledged.
    known: bool = False
    # Some batch of this round failed: nothing is sent until all answers are in.
    failing: bool = False
    # A pause or a refresh is under way.
    resting: bool = False
    # Grows with each round: answers to an older one are ignored.
    round: int = 0


class Producer:
    """One client that writes."""

    def __init__(
        self, view: ClusterView, history: History, prng: Prng, acks: Acks, *, codec: Codec
    ) -> None:
        self.view = view
        self.acks = acks
        # Open lanes, by key.
        self.lanes: dict[Key, Lane] = {}
        # Of the process in the history.
        self.name = view.name
        self._history = history
        self._prng = prng
        self._codec = codec
        self._world = view.world
        # (id, epoch) of an idempotent producer, once it is granted.
        self._producer_id = -1
        self._initialising = False
        self._value_count = 0

    @property
    def unresolved(self) -> int:
        """Batches without an outcome."""
        return sum(len(lane.batches) for lane in self.lanes.values())

    def send(self, key: Key, count: int) -> None:
        """Queues a batch of new values."""
        first = self._value_count + 1
        self._value_count += count
        values = [f"{self.name}:{number}" for number in range(first, first + count)]
        lane = self.lanes.setdefault(key, Lane(key))
        batch = _Batch(values, self._world.now, lane.batch_count)
        lane.batch_count += 1
        if self.acks is Acks.IDEMPOTENT:
            batch.sequence = lane.next_sequence
            lane.next_sequence += count
        lane.batches.append(batch)
        self._pump(lane)

    # Sending -------------------------------------------------------------------------------

    def _pump(self, lane: Lane) -> None:
        if lane.resting or lane.failing or not lane.batches:
            return
        if self.acks is Acks.IDEMPOTENT and self._producer_id < 0:
            self._initialise()
            return
        place = self.view.places.get(lane.key)
        if place is None or place.leader < 0:
            self._rest(lane)
            return
        waiting = sum(batch.sent for batch in lane.batches)
        alone = self.acks is Acks.IDEMPOTENT and not lane.known
        limit = 1 if alone else MAX_IN_FLIGHT
        for batch in list(lane.batches):
            if batch.sent:
                continue
            if waiting >= limit or lane.resting or lane.failing:
                return
            if self.acks is Acks.IDEMPOTENT and batch.number >= lane.batches[0].number + limit:
                return
            # There is no answer to acks=0: nothing is in flight.
            waiting += self.acks is not Acks.NONE
            self._transmit(lane, batch)

    def _transmit(self, lane: Lane, batch: _Batch) -> None:
        place = self.view.places[lane.key]
        session = self.view.session(place.leader)
        timestamp = WALL_START_MS + self._world.now
        records = build_batch(
            [Record(timestamp, None, value.encode()) for value in batch.values],
            codec=self._codec,
            producer_id=self._producer_id,
            producer_epoch=0 if self._producer_id >= 0 else -1,
            base_sequence=batch.sequence,
        )
        part = ProducePartition("", place.topic_id, lane.key.partition, memoryview(records))
        wanted = ProduceRequest(None, self.acks.number, 2_000, [part])
        batch.sent = True
        if self.acks is not Acks.IDEMPOTENT:
            batch.connection = session.connection_id
        round_number = lane.round
        number = session.correlation_id
        frame = wire_produce.pack_request(PRODUCE_VERSION, number, self.name, wanted)
        if self.acks is Acks.NONE:
            session.request(frame, lambda _: None, answered=False)
            self._resolve(lane, batch, Outcome.INFO, -1, "acks=0")
            return
        session.request(frame, lambda answer: self._on_answer(lane, batch, round_number, answer))

    def _initialise(self) -> None:
        if self._initialising or self._producer_id >= 0:
            # A batch may have asked again before the pause after a failure was over.
            return
        self._initialising = True
        wanted = request(
            ApiKey.INIT_PRODUCER_ID,
            INIT_VERSION,
            transactional_id=None,
            transaction_timeout=millis(60_000),
            producer_id=-1,
            producer_epoch=-1,
        )
        self.view.ask(wanted, self._on_producer_id)

    def _on_producer_id(self, response: Entity | None) -> None:
        self._initialising = False
        if response is None or response.error_code.value != ErrorCode.NONE:
            self._world.at(self._prng.between(20, 200), self._initialise)
            return
        self._producer_id = response.producer_id
        for lane in list(self.lanes.values()):
            self._pump(lane)

    def _rest(self, lane: Lane) -> None:
        """Looks for the leader and goes on after a pause."""
        lane.resting = True

        def resume() -> None:
            lane.resting = False
            self._pump(lane)

        self.view.refresh(resume)

    # Answers -------------------------------------------------------------------------------

    def _on_answer(self, lane: Lane, batch: _Batch, round_number: int, frame: bytes | None) -> None:
        batch.sent = False
        if batch not in lane.batches:
            # Given up with its topic.
            return
        if frame is None:
            self._fail(lane, batch, None, "no answer")
            return
        _, response = wire_produce.parse_response(PRODUCE_VERSION, frame)
        part = response.partitions[0]
        code = part.error_code
        if code is ErrorCode.NONE or code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._succeed(lane, batch, part.base_offset)
        else:
            self._fail(lane, batch, code, code.name)

    def _succeed(self, lane: Lane, batch: _Batch, base_offset: int) -> None:
        promised = self.acks in (Acks.IDEMPOTENT, Acks.ALL)
        outcome = Outcome.OK if promised else Outcome.INFO
        self._resolve(lane, batch, outcome, base_offset, "" if promised else "acks=1")
        lane.known = True
        self._end_round(lane)
        self._pump(lane)

    def _fail(self, lane: Lane, batch: _Batch, code: ErrorCode | None, reason: str) -> None:
        if self.acks is not Acks.IDEMPOTENT:
            written = code not in _NOT_WRITTEN
            self._resolve(lane, batch, Outcome.INFO if written else Outcome.FAIL, -1, reason)
            self._rest(lane)
            return
        if code is not None and code not in _RETRIABLE:
            raise Violation("ErrorCodeTruth", f"{self.name} {lane.key} got {reason}")
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and lane.batches[0] is batch:
            raise Violation(
                "SequenceContinuity",
                f"{self.name} {lane.key} got {reason} for its oldest batch, sequence "
                f"{batch.sequence}; all before it was acknowledged",
            )
        lane.failing = True
        self._end_round(lane)

    def _end_round(self, lane: Lane) -> None:
        """Starts again from the oldest batch once all answers of a failed round are in."""
        if lane.failing and not any(batch.sent for batch in lane.batches):
            lane.failing = False
            lane.round += 1
            if not lane.resting:
                self._rest(lane)

    def _resolve(
        self, lane: Lane, batch: _Batch, outcome: Outcome, base_offset: int, reason: str
    ) -> None:
        lane.batches.remove(batch)
        known = base_offset >= 0
        self._history.send(
            self.name,
            outcome,
            [
                Sent(lane.key, base_offset + index if known else -1, value)
                for index, value in enumerate(batch.values)
            ],
            invoked_at=batch.invoked_at,
            completed_at=self._world.now,
            reason=reason,
            connection=batch.connection,
        )

    def abandon(self, is_gone: Callable[[Key], bool]) -> None:
        """Gives up the lanes of deleted topics: what became of their batches is unknown."""
        for key in [key for key in self.lanes if is_gone(key)]:
            lane = self.lanes.pop(key)
            lane.resting = True
            for batch in list(lane.batches):
                self._resolve(lane, batch, Outcome.INFO, -1, "topic deleted")

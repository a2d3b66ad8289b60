"""The coordinators of this node: one for each partition of an internal topic that is led here.

A coordinator comes with the leadership of its partition and goes with it. In between:

    leads ──> loading ──(all below the beginning of the leadership is replayed)──> active
                 │                                                                    │
                 └──────────────── leadership lost, log damaged ──────────────────────┴──> gone

While it loads, requests get COORDINATOR_LOAD_IN_PROGRESS; where this node does not lead, they get
NOT_COORDINATOR, and clients ask FindCoordinator again. A log that cannot be replayed leaves what
belongs to it without a coordinator here: an answer made up of half a log would be a wrong one.

Loading goes in steps of bounded size, at most `limits.COORDINATOR_LOAD_BYTES_PER_TURN` a tick for
all partitions of a topic together, so that a broker that takes over a large partition goes on
serving. A step reads a part of the log, or replays a part of what the loader holds of it
(`log_loader.py`).

A request that writes waits for the replicas for a limited time only. After that it gets
COORDINATOR_NOT_AVAILABLE: what it asked for may yet come into force, and clients try again.

Invariants
- OneCoordinator: a coordinator decides only in the epoch in which this node leads its partition.
- LoadedFirst: it decides only when all that its predecessors have committed is replayed.
- EveryRequestEnds: a request is answered, or what it asks about waits for a client or a replica.

Left out: what is coordinated (`group_seats.py`, `transaction_seats.py`).
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tidelog.broker import events
from tidelog.broker.coordinator_log import CoordinatorLog
from tidelog.broker.log_loader import LogLoader
from tidelog.env.instant import Instant, earliest
from tidelog.env.known_deadline import KnownDeadline
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.limits import COORDINATOR_LOAD_BYTES_PER_TURN
from tidelog.metadata.image import MetadataImage, TopicImage
from tidelog.model import TopicPartition
from tidelog.replication.replicas import Replicas
from tidelog.rsm.coordinator import Coordinator, Refused
from tidelog.rsm.placement import partition_of

C = TypeVar("C", bound=Coordinator[Any, Any, Any])
Response = TypeVar("Response")


@dataclass(slots=True, eq=False)
class Call(Generic[Response]):
    """A request under way to a coordinator: the `reply_to` that it knows."""

    # Answers the client; called once.
    answer: Callable[[Response], None]
    is_answered: bool = False

    def settle(self, response: Response) -> None:
        """Answers, unless it timed out before."""
        if not self.is_answered:
            self.is_answered = True
            self.answer(response)


@dataclass(slots=True, eq=False, kw_only=True)
class Seat(Generic[C]):
    """One partition of the topic that this node leads."""

    leader_epoch: int
    log: CoordinatorLog
    coordinator: C
    # Reads the log; `None` before the replica leads, and when everything is read.
    loader: LogLoader | None = None
    # Why there is nothing to be had from it; `None` while there is.
    failure: str | None = None
    # When the coordinator has something to do; kept while nothing is given to it. A node has dozens
    # of coordinators, and most turns have to do with one.
    deadline: KnownDeadline = field(init=False)

    def __post_init__(self) -> None:
        self.deadline = KnownDeadline(self.coordinator.deadline)

    @property
    def may_load(self) -> bool:
        """Whether there is something to read or to replay, or everything is replayed."""
        loader = self.loader
        if loader is None or not self.log.is_led:
            return False
        return loader.is_done or loader.has_more(self.log.high_watermark)


@dataclass(slots=True, eq=False, kw_only=True)
class CoordinatorSeats(Generic[C]):
    """The coordinators of one topic on one node."""

    # The topic.
    topic_name: str
    # The coordinator of a partition, by its name and over its log.
    make: Callable[[TopicPartition, CoordinatorLog], C]
    # How long a request may wait for the replicas.
    write_timeout_ms: int
    node_id: int
    replicas: Replicas
    trace: Trace
    # Wall time minus monotonic time, from the driver.
    wall_offset_ms: int = 0
    # By partition number: those that the metadata says are led here.
    _seats: dict[int, Seat[C]] = field(default_factory=dict, init=False)
    # The topic in the newest metadata; `None` before it is created.
    _topic: TopicImage | None = field(default=None, init=False)
    # Those of them that load, or that wait for the high watermark.
    _busy: dict[int, Seat[C]] = field(default_factory=dict, init=False)
    # Requests that wait for replicas, with the time at which they have waited for too long.
    _held: deque[tuple[Instant, Call[Any]]] = field(default_factory=deque, init=False)
    # The last tick: what is left over of loading asks for another one at once.
    _woken_at: Instant = field(default=Instant(0), init=False)
    # Kept while nothing happens here.
    _deadline: KnownDeadline = field(init=False)

    def __post_init__(self) -> None:
        self._deadline = KnownDeadline(self._next_deadline)

    # Leadership ---------------------------------------------------------------------------

    def on_image(self, image: MetadataImage) -> None:
        """Follows the leadership of the partitions. The replicas may be behind; a coordinator
        begins when its replica leads."""
        topic = image.topics_by_name.get(self.topic_name)
        if topic is self._topic:
            return
        self._deadline.forget()
        before, self._topic = self._topic, topic
        if before is not None and topic is not None and before.topic_id != topic.topic_id:
            self._keep({})
        partitions = {} if topic is None else topic.partitions
        self._keep(
            {
                number: partition.leader_epoch
                for number, partition in sorted(partitions.items())
                if partition.leader == self.node_id
            }
        )

    def _forget_deadlines(self) -> None:
        """All coordinators have got something that may have changed what they have to do."""
        self._deadline.forget()
        for seat in self._seats.values():
            seat.deadline.forget()

    def _keep(self, led: dict[int, int]) -> None:
        """The leader epochs of the partitions that are led here."""
        for number, seat in list(self._seats.items()):
            if led.get(number) != seat.leader_epoch:
                self._leave(number, seat)
        for number, leader_epoch in led.items():
            if number not in self._seats:
                self._busy[number] = self._seats[number] = self._open(number, leader_epoch)

    def _open(self, number: int, leader_epoch: int) -> Seat[C]:
        topic_partition = TopicPartition(self.topic_name, number)
        assert self._topic is not None, f"{topic_partition} is not in the metadata"
        log = CoordinatorLog(self.replicas, topic_partition, self._topic.topic_id, leader_epoch)
        coordinator = self.make(topic_partition, log)
        return Seat(leader_epoch=leader_epoch, log=log, coordinator=coordinator)

    def _leave(self, number: int, seat: Seat[C]) -> None:
        """Another node leads."""
        del self._seats[number]
        self._busy.pop(number, None)
        self._retire(seat)

    def _retire(self, seat: Seat[C]) -> None:
        seat.loader = None
        seat.deadline.forget()
        if seat.coordinator.active:
            seat.coordinator.resign()
            self._deliver(seat)
            self.trace.event(
                events.CoordinatorUnloaded(
                    partition=seat.log.topic_partition, leader_epoch=seat.leader_epoch
                )
            )

    def _fail(self, number: int, seat: Seat[C], reason: str) -> None:
        """The partition is no longer led, or cannot be read; the metadata will say who leads."""
        seat.failure = reason
        self._deadline.forget()
        self._busy.pop(number, None)
        self._retire(seat)

    # Loading ------------------------------------------------------------------------------

    def _load(self, now: Instant) -> None:
        # A batch may take more than what is left: with less than a half of it none is begun.
        budget, least = COORDINATOR_LOAD_BYTES_PER_TURN, COORDINATOR_LOAD_BYTES_PER_TURN // 2
        for number, seat in list(self._busy.items()):
            while budget > least and seat.loader is not None and seat.may_load:
                budget -= self._load_step(number, seat, budget, now)

    def _load_step(self, number: int, seat: Seat[C], max_bytes: int, now: Instant) -> int:
        """Replays a part of the log, or activates the coordinator; returns how much of the turn it
        took, in bytes."""
        loader = seat.loader
        assert loader is not None, f"partition {number} does not load"
        if loader.is_done:
            self._activate(seat, loader, now)
            return 0
        high_watermark = seat.log.high_watermark
        loader.begin_at(seat.log.start_offset)
        reads = loader.reads(high_watermark)
        data = seat.log.read(loader.position, max_bytes, now) if reads else b""
        if data is None:
            self._fail(number, seat, "the log cannot be read")
            return 0
        coordinator = seat.coordinator
        try:
            if reads:
                only_last_counts = coordinator.only_last_counts
                found = loader.take(data, high_watermark, only_last_counts=only_last_counts)
            else:
                found = loader.take_held(max_bytes)
            if not found.is_empty:
                coordinator.load(found)
        except ProtocolError as error:
            self.trace.event(
                events.CoordinatorNotLoaded(
                    partition=seat.log.topic_partition, reason=error.message, offset=loader.position
                )
            )
            self._fail(number, seat, error.message)
            return len(data)
        return found.size_bytes

    def _activate(self, seat: Seat[C], loader: LogLoader, now: Instant) -> None:
        seat.loader = None
        seat.deadline.forget()
        self._prepare(seat, now)
        seat.coordinator.become_active(seat.leader_epoch, now)
        self.trace.event(
            events.CoordinatorLoaded(
                partition=seat.log.topic_partition,
                leader_epoch=seat.leader_epoch,
                entries=len(seat.coordinator.entries),
                offset=loader.end,
            )
        )

    # Requests -----------------------------------------------------------------------------

    def hand_over(
        self, key: str, request: Any, call: Call[Any], now: Instant, *, writes: bool
    ) -> None:
        """Hands a request to the coordinator of this key; the call is settled, now or later. One
        that `writes` waits for replicas, and for nothing else."""
        self.hand_over_to(self.partition_of(key), request, call, now, writes=writes)

    def hand_over_to(
        self, number: int, request: Any, call: Call[Any], now: Instant, *, writes: bool
    ) -> None:
        """As `hand_over`, to the coordinator of a partition."""
        seat = self._led(number)
        if seat is None:
            call.settle(Refused(ErrorCode.NOT_COORDINATOR))
            return
        if not seat.coordinator.active:
            call.settle(Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        self.touch(number, seat, now)
        seat.coordinator.handle(request, call, now)
        if writes:
            self._held.append((Instant(now + self.write_timeout_ms), call))

    def find(self, key: str) -> tuple[int, Seat[C]] | None:
        """The seat of a key and the number of its partition, if this node leads it."""
        number = self.partition_of(key)
        seat = self._led(number)
        return None if seat is None else (number, seat)

    def partition_of(self, key: str) -> int:
        """The partition that a key belongs to; -1 before the topic exists."""
        topic = self._topic
        return -1 if topic is None else partition_of(key, len(topic.partitions))

    def _led(self, number: int) -> Seat[C] | None:
        seat = self._seats.get(number)
        if seat is None or seat.failure is not None or not self._leads(number, seat):
            return None
        return seat

    def touch(self, number: int, seat: Seat[C], now: Instant) -> None:
        """To be called before anything is given to a coordinator: its answers are looked for."""
        self._deadline.forget()
        seat.deadline.forget()
        self._prepare(seat, now)
        self._busy[number] = seat

    def coordinators(self) -> list[C] | None:
        """All of this node; `None` while some of them load."""
        seats = [each for each in self._seats.values() if each.failure is None]
        if not all(each.coordinator.active for each in seats):
            return None
        return [each.coordinator for each in seats]

    def _leads(self, number: int, seat: Seat[C]) -> bool:
        """Whether the replica leads, or is about to; else the coordinator is at its end."""
        if seat.log.is_led or not seat.coordinator.active:
            return True
        self._fail(number, seat, "not led any more")
        return False

    def _prepare(self, seat: Seat[C], now: Instant) -> None:
        """Sets the time of the input being handled."""
        seat.log.wall_ms = now + self.wall_offset_ms
        seat.coordinator.wall_offset_ms = self.wall_offset_ms

    # The tick -----------------------------------------------------------------------------

    def wake(self, now: Instant) -> None:
        """Begins a tick: a step of loading, then the sessions and waits that are due."""
        self._woken_at = now
        deadline = self.deadline()
        if deadline is None or now < deadline:
            return
        self._deadline.forget()
        self._load(now)
        for number, seat in list(self._due(now)):
            seat.deadline.forget()
            self._prepare(seat, now)
            seat.coordinator.wake(now)
            self._busy[number] = seat
        while self._held and self._held[0][0] <= now:
            _, call = self._held.popleft()
            call.settle(Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def _due(self, now: Instant) -> Iterator[tuple[int, Seat[C]]]:
        for number, seat in self._seats.items():
            deadline = seat.deadline.get()
            if deadline is not None and deadline <= now:
                yield number, seat

    def flow(self, now: Instant) -> bool:
        """One round: what is committed, and the answers that are due for it."""
        if not self._busy:
            return False
        self._deadline.forget()
        moved = False
        for number, seat in list(self._busy.items()):
            coordinator = seat.coordinator
            if seat.loader is None and not coordinator.active:
                self._begin(seat)
                continue
            if coordinator.is_deposed or not seat.log.is_led:
                # Also where it loads: what was replayed cannot be replayed again.
                self._fail(number, seat, "not led any more")
                moved = True
                continue
            if not coordinator.active:
                continue
            seat.deadline.forget()
            self._prepare(seat, now)
            coordinator.on_high_watermark(seat.log.high_watermark, now)
            moved |= self._deliver(seat)
            if not coordinator.has_uncommitted:
                del self._busy[number]
        self._forget_answered()
        return moved

    def _forget_answered(self) -> None:
        """Requests are answered in about the order in which they came."""
        while self._held and self._held[0][1].is_answered:
            self._held.popleft()

    def _begin(self, seat: Seat[C]) -> None:
        """The replica may lead by now: its log is made some ticks after the metadata names it."""
        if seat.log.is_led:
            seat.loader = LogLoader(seat.log.start_offset, seat.log.end_offset)

    def _deliver(self, seat: Seat[C]) -> bool:
        replies = seat.coordinator.take_replies()
        for call, response in replies:
            assert isinstance(call, Call), f"unknown reply_to {call!r}"
            call.settle(response)
        return bool(replies)

    def deadline(self) -> Instant | None:
        """At once while a log can be loaded further; else when a session or a wait may be over."""
        return self._deadline.get()

    def _next_deadline(self) -> Instant | None:
        if any(seat.may_load for seat in self._busy.values()):
            return self._woken_at
        return earliest(
            self._held[0][0] if self._held else None,
            *[seat.deadline.get() for seat in self._seats.values()],
        )

    def check(self) -> None:
        """Asserts the invariants of the module's docstring."""
        self._deadline.check()
        for number, seat in self._seats.items():
            coordinator = seat.coordinator
            coordinator.check()
            seat.deadline.check()
            assert not (coordinator.active and seat.loader), f"LoadedFirst: {number} loads"
            if coordinator.active and seat.log.is_led:
                begun = self.replicas.partitions[seat.log.topic_partition].leader_epoch
                assert begun == seat.leader_epoch, f"OneCoordinator: {number} in {begun}"
            waits = coordinator.has_uncommitted or not coordinator.active
            assert not waits or seat.failure is not None or number in self._busy, (
                f"EveryRequestEnds: partition {number} is forgotten"
            )

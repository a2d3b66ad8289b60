"""Requests that wait: for the high watermark (acks=all), for records to read (long polls), or for
all replicas to let go of records (DeleteRecords).

A parked request completes exactly once (`OneReply`): by progress, at its deadline, or when the
replica stops leading, whichever comes first. Progress is looked at once per tick: everything that
moved during a tick is noted, and `end_tick` then completes what became ready. So a hundred appends
wake a parked fetch once.

- **Acks** wait per partition in the order of the offset they need. The high watermark only moves
  forward, so completing is taking from the left of a queue: the cost is that of what completes,
  never of what waits (`AckOrder`). A retry of a batch that still waits needs an earlier offset
  than the queue's end and is put where it belongs; that is rare.
- **Fetches** stand in the registers of their partitions (`interest`).
- **Deletions** are rare and stand in a plain register of their partition (`Partition.deletions`).

Deadlines live in one heap. Answered requests stay in it until they surface, or until they are
many and the majority; then the heap is rebuilt.

Bound: a parked request belongs to a connection, and each connection has at most
`limits.MAX_IN_FLIGHT_REQUESTS` of them; see also `limits.PURGATORY_PURGE_REQUESTS`.
"""

import heapq
from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import Final, Generic, TypeVar

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.limits import PURGATORY_PURGE_REQUESTS
from tidelog.replication.interest import DelayedFetch
from tidelog.replication.messages import DeletedRecords, DeleteRecordsResult, Reply, ReplyTo
from tidelog.wire.fetch import LeaderHint
from tidelog.wire.produce import ProducedPartition, ProduceResponse

Result = TypeVar("Result")
Register = TypeVar("Register")


class _DelayedWrite(Generic[Result, Register]):
    """A request of which some partitions wait for other replicas."""

    __slots__ = ("deadline", "done", "in_heap", "parked_at", "pending", "reply_to", "results")

    def __init__(
        self, reply_to: ReplyTo, results: list[Result], *, now: Instant, timeout_ms: int
    ) -> None:
        # Whose answer it is.
        self.reply_to = reply_to
        # In request order; what waits stands here as a success until it fails.
        self.results = results
        # Since when it waits; shows how long a stall of the high watermark has lasted.
        self.parked_at = now
        # When it is answered at the latest.
        self.deadline = Instant(now + max(timeout_ms, 0))
        # Indexes into `results` that wait, with what they wait in.
        self.pending: dict[int, Register] = {}
        # It has been answered; nothing may answer it again.
        self.done = False
        # `Deadlines` watches over it.
        self.in_heap = False

    def _decide(self, index: int) -> Register:
        """One partition is decided, and with the last one the whole request."""
        assert not self.done, f"OneReply: {self.reply_to} is answered already"
        assert index in self.pending, f"OneReply: partition {index} of {self.reply_to} is decided"
        register = self.pending.pop(index)
        self.done = not self.pending
        return register


class Unappended:
    """Where a batch waits that is not appended yet (`verification`)."""

    __slots__ = ()

    def abandon_one(self) -> None:
        """One of the waiting requests has timed out; its batch will not be appended."""


UNAPPENDED: Final = Unappended()


class DelayedProduce(_DelayedWrite[ProducedPartition, "AckQueue | Unappended"]):
    """A Produce of which some partitions are not committed, or not even appended."""

    __slots__ = ()

    def resolve(self, index: int, error: ErrorCode, leader: LeaderHint | None = None) -> bool:
        """One partition is decided; returns whether the whole request now is."""
        self._decide(index)
        if error is not ErrorCode.NONE:
            result = self.results[index]
            self.results[index] = result._replace(error_code=error, current_leader=leader)
        return self.done

    def expire(self) -> None:
        """The deadline has come: what still waits has timed out, its records stay in the log."""
        for index, queue in list(self.pending.items()):
            self.resolve(index, ErrorCode.REQUEST_TIMED_OUT)
            queue.abandon_one()

    def reply(self) -> Reply:
        """The answer."""
        return Reply(self.reply_to, ProduceResponse(self.results))


class DelayedDelete(_DelayedWrite[DeletedRecords, "Deletions"]):
    """A DeleteRecords: some alive replica still holds what is to go."""

    __slots__ = ()

    def register(self, deletions: "Deletions", index: int, offset: int) -> None:
        """Waits until the low watermark is at least `offset`."""
        self.pending[index] = deletions
        deletions[self, index] = offset

    def note(self, index: int, low_watermark: int) -> None:
        """How far the slowest replica is."""
        self.results[index] = self.results[index]._replace(low_watermark=low_watermark)

    def resolve(self, index: int, error: ErrorCode) -> bool:
        """One partition is decided; returns whether the whole request now is."""
        del self._decide(index)[self, index]
        self.results[index] = self.results[index]._replace(error_code=error)
        return self.done

    def expire(self) -> None:
        """The deadline has come: what still waits has timed out, as far as it got."""
        for index in list(self.pending):
            self.resolve(index, ErrorCode.REQUEST_TIMED_OUT)

    def reply(self) -> Reply:
        """The answer."""
        return Reply(self.reply_to, DeleteRecordsResult(self.results))


Deletions = dict[tuple[DelayedDelete, int], int]
"""Deletions (request, index in it) that wait for one partition, with the low watermark they need.
"""


class AckQueue:
    """The acks that wait for one partition's high watermark."""

    __slots__ = ("_abandoned", "_waiting")

    def __init__(self) -> None:
        # (required high watermark, request, index in the request), by required high watermark.
        self._waiting: deque[tuple[int, DelayedProduce, int]] = deque()
        # Entries whose request has timed out; dropped when they are the majority.
        self._abandoned = 0

    def __len__(self) -> int:
        return len(self._waiting) - self._abandoned

    def add(self, required: int, request: DelayedProduce, index: int) -> None:
        """Waits until the high watermark is at least `required`."""
        request.pending[index] = self
        waiting = self._waiting
        position = len(waiting)
        while position and waiting[position - 1][0] > required:
            position -= 1
        if position == len(waiting):
            waiting.append((required, request, index))
        else:
            waiting.insert(position, (required, request, index))

    def take_up_to(self, high_watermark: int) -> Iterator[tuple[DelayedProduce, int]]:
        """Removes and yields what this high watermark satisfies, in order."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= high_watermark:
            _, request, index = waiting.popleft()
            if index in request.pending:
                yield request, index
            else:
                self._abandoned -= 1

    def take_all(self) -> Iterator[tuple[DelayedProduce, int]]:
        """Removes and yields everything."""
        return self.take_up_to(2**63)

    def oldest(self) -> tuple[int, DelayedProduce] | None:
        """The lowest required high watermark and the request that waits for it."""
        for required, request, index in self._waiting:
            if index in request.pending:
                return required, request
        return None

    def abandon_one(self) -> None:
        """One of the waiting requests has timed out."""
        self._abandoned += 1
        if self._abandoned * 2 > len(self._waiting):
            live = (entry for entry in self._waiting if entry[2] in entry[1].pending)
            self._waiting = deque(live)
            self._abandoned = 0

    def check(self) -> None:
        """Asserts the order and the count."""
        if not self._waiting:
            assert not self._abandoned, f"OneReply: {self._abandoned} abandoned of none"
            return
        required = [entry[0] for entry in self._waiting]
        assert required == sorted(required), f"AckOrder: {required}"
        live = sum(1 for entry in self._waiting if entry[2] in entry[1].pending)
        assert live == len(self), f"OneReply: {live} acks wait, {len(self)} are counted"


Parked = DelayedProduce | DelayedFetch | DelayedDelete


class Deadlines:
    """When parked requests are answered at the latest."""

    __slots__ = ("_answered", "_heap", "_sequence")

    def __init__(self) -> None:
        # (deadline, order of parking, request); answered ones linger.
        self._heap: list[tuple[Instant, int, Parked]] = []
        # Breaks ties in the order of parking.
        self._sequence = count()
        # Answered requests in the heap.
        self._answered = 0

    def __len__(self) -> int:
        return len(self._heap) - self._answered

    def add(self, parked: Parked) -> None:
        """Takes one request that is not answered."""
        assert not parked.done, f"OneReply: {parked.reply_to} is answered already"
        parked.in_heap = True
        heapq.heappush(self._heap, (parked.deadline, next(self._sequence), parked))

    def note_answered(self, parked: Parked) -> None:
        """A request was answered before its deadline; it need not be one of those here."""
        if not parked.in_heap:
            return
        self._answered += 1
        if self._answered > PURGATORY_PURGE_REQUESTS and self._answered * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if not entry[2].done]
            heapq.heapify(self._heap)
            self._answered = 0

    def next(self) -> Instant | None:
        """The earliest deadline of a request that still waits."""
        self._drop_answered()
        return self._heap[0][0] if self._heap else None

    def take_due(self, now: Instant) -> Iterator[Parked]:
        """Removes and yields what must be answered now, in the order of the deadlines."""
        self._drop_answered()
        while self._heap and self._heap[0][0] <= now:
            parked = heapq.heappop(self._heap)[2]
            parked.in_heap = False
            yield parked
            self._drop_answered()

    def _drop_answered(self) -> None:
        while self._heap and self._heap[0][2].done:
            heapq.heappop(self._heap)
            self._answered -= 1

    def check(self) -> None:
        """Asserts the count."""
        waiting = sum([not entry[2].done for entry in self._heap])
        assert waiting == len(self), f"OneReply: {waiting} requests wait, {len(self)} are counted"

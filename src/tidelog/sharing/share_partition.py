"""One partition as one group shares it: which member has which record, and what is done with.

    start                                                     end
      │ ........ in flight: batches, ascending ................ │  not acquired yet
      v                                                         v
    ──┬──────────┬────────────────┬───────────┬─────────────────┬───────────────────> log
      │ acquired │ acknowledged   │ available │ acquired        │
    ──┴──────────┴────────────────┴───────────┴─────────────────┴──

Everything below the start is done with; what lies at the end and beyond is acquired as members ask
for records. In between every offset is in a state (`in_flight`). Acquired records are not written
anywhere: when another broker leads the partition they are available again. So a record is delivered
at least once, and a delivery that was cut short by a failure of the leader may not be counted.

**What is written, and when.** The start, and each state that a record goes to from ACQUIRED, are
written by the share coordinator, under the leader epoch of this broker and the state epoch that the
group's state was made with. An acknowledgement is answered when that is durable (`Change`). A
time-out of a lock counts at once and is written behind; a leader that comes next may deliver the
record once more than it should, which is the price for not holding up the record.

**Where offsets are missing.** The log may have no record at an offset: a control record, or one
that compaction took. The member that acquires the range says so (`GAP`). Batches that vanished as a
whole are archived when a fetch begins behind them. When the log start moves, everything below it is
done with.

**After a change of leader** the coordinator's state may have holes, where records were acquired and
never acknowledged: they are available, and have not been delivered as far as is known.

Invariants (`check`): OneOwner: an offset is in one batch, so one member has it. AcknowledgedIsDone:
nothing below the start is acquired. CountedDeliveries: no record is delivered more often than
`delivery_count_limit` while that stays as it is.

Left out: the log, which the caller reads; and time, which it passes in.

Source: KIP-932; KIP-1206 for the strict limit; KIP-1222 for renewals.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final

from tidelog.config import LONG_MAX
from tidelog.env.instant import Instant, earliest
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.sharing.in_flight import Batch, Change, Part
from tidelog.sharing.values import (
    RENEW,
    STATE_OF_TYPE,
    TERMINAL,
    Acknowledgement,
    RecordState,
    ShareKey,
    ShareSettings,
    ShareState,
    Span,
)

_FIRST: Final = attrgetter("first")
_WRITTEN: Final = frozenset(RecordState) - {RecordState.ACQUIRED}
"""States that a coordinator may have."""
_MAX_COUNT: Final = 2**15 - 1
"""The largest delivery count that can be written or answered; as `LONG_MAX` is of offsets."""


class SharePartition:
    """The state of one share partition on the broker that leads its partition."""

    __slots__ = (
        "_has_available",
        "_lock_ends",
        "batches",
        "end",
        "key",
        "leader_epoch",
        "settings",
        "start",
        "state_epoch",
    )

    def __init__(
        self, key: ShareKey, leader_epoch: int, state: ShareState, settings: ShareSettings
    ) -> None:
        """From what the coordinator knows; `state.start` must be an offset.

        Raises `ProtocolError` where the state makes no sense."""
        self.key = key
        # The term in which this broker leads the partition.
        self.leader_epoch = leader_epoch
        # The number of the group's state; an older one is fenced by the coordinator.
        self.state_epoch = state.state_epoch
        # What the group's configuration says, set anew by the caller when that changes.
        self.settings = settings
        # Everything below is done with; inclusive.
        self.start = state.start
        # What was never acquired begins here; exclusive.
        self.end = state.start
        # In flight, ascending; between two of them the log has no records.
        self.batches: list[Batch] = []
        # False only if nothing in flight is available; true costs a look at all of it.
        self._has_available = True
        # No lock ends before; `None`: nothing is locked.
        self._lock_ends: Instant | None = None
        self._load(state)

    def _load(self, state: ShareState) -> None:
        for first, last, number, delivery_count in state.batches:
            # The next offset and the next count must be some, too.
            makes_sense = self.end <= first <= last < LONG_MAX and number in _WRITTEN
            if not makes_sense or not 0 <= delivery_count < _MAX_COUNT:
                raise ProtocolError(
                    ErrorCode.UNKNOWN_SERVER_ERROR, f"state of {first} to {last} from {self.end}"
                )
            if first > self.end:
                self.batches.append(Batch.of(self.end, first - 1, RecordState.AVAILABLE, 0))
            self.batches.append(Batch.of(first, last, RecordState(number), delivery_count))
            self.end = last + 1
        self.advance()

    # Views ------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Offsets between start and end."""
        return self.end - self.start if self.batches else 0

    @property
    def done_in_flight(self) -> int:
        """How many of them are done with: what is behind the start, and not in the way of it."""
        return sum(part.last - part.first + 1 for part in self._parts() if part.state in TERMINAL)

    def next_offset(self) -> int:
        """Where to read for the next member: at the first available record, else at the end."""
        if self._has_available:
            for part in self._parts():
                if part.is_available:
                    return part.first
            self._has_available = False
        return self.end

    def may_acquire(self) -> bool:
        """Whether there is something to deliver again, or space for something new."""
        return self.in_flight < self.settings.max_locks or self.next_offset() < self.end

    def _parts(self) -> Iterator[Part]:
        for batch in self.batches:
            yield from batch.parts

    def overlapping(self, first: int, last: int) -> Sequence[Batch]:
        """The batches that have offsets of this range."""
        low = bisect_right(self.batches, first, key=_FIRST) - 1
        high = bisect_right(self.batches, last, key=_FIRST)
        found = self.batches[max(0, low) : high]
        return found[1:] if found and found[0].last < first else found

    # Acknowledgements -------------------------------------------------------------------------

    def acknowledge(
        self, member_id: str, wanted: Iterable[Acknowledgement], now: Instant
    ) -> Change:
        """Begins what a member says of its records; `finish` ends it. A change without parts is
        over at once.

        Raises `ProtocolError`: INVALID_REQUEST beyond what was acquired, INVALID_RECORD_STATE for
        records that the member does not have. Nothing is changed then, but for renewed locks."""
        change = Change()
        try:
            for each in wanted:
                if each.last >= self.start:
                    self._acknowledge(member_id, each, change, now)
        except ProtocolError:
            self.finish(change, now, written=False)
            raise
        return change

    def _acknowledge(
        self, member_id: str, wanted: Acknowledgement, change: Change, now: Instant
    ) -> None:
        batches = self._batches_of(wanted)
        for first, last, kind in _runs(wanted, self.start):
            for batch in batches:
                for part in batch.within(first, last):
                    if part.state is not RecordState.ACQUIRED or part.member_id != member_id:
                        raise ProtocolError(
                            ErrorCode.INVALID_RECORD_STATE,
                            f"`{member_id}` has not acquired {part.first} to {part.last}",
                        )
                    if kind != RENEW:
                        limit = self.settings.delivery_count_limit
                        part.begin(change, STATE_OF_TYPE[kind], limit)
                    elif self.settings.renewable:
                        self._lock(part, now)
                    else:
                        raise ProtocolError(
                            ErrorCode.INVALID_RECORD_STATE, "locks of this group are not renewed"
                        )

    def _batches_of(self, wanted: Acknowledgement) -> Sequence[Batch]:
        """The batches that an acknowledgement is about; it must not reach beyond them."""
        first, last = max(wanted.first, self.start), wanted.last
        at = bisect_right(self.batches, first, key=_FIRST)
        if at == 0:
            raise ProtocolError(ErrorCode.INVALID_RECORD_STATE, f"{first} was not acquired")
        high = bisect_right(self.batches, last, key=_FIRST)
        reaches = self.batches[high - 1].last
        if reaches < last:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, f"{last} is beyond {reaches}")
        return self.overlapping(first, last)

    def release(self, member_id: str) -> Change:
        """Begins to take from a member all that it has: it has gone."""
        change = Change()
        for part in self._parts():
            if part.member_id == member_id and part.state is RecordState.ACQUIRED:
                part.begin(change, RecordState.AVAILABLE, self.settings.delivery_count_limit)
        return change

    def finish(self, change: Change, now: Instant, *, written: bool) -> None:
        """A change was written, or was not: then its records are in their former state."""
        for part in change.parts:
            # A part that was archived meanwhile has no change any more.
            if part.change is not change:
                continue
            if written:
                part.commit()
            else:
                part.roll_back(now, self.settings.delivery_count_limit)
            if part.state is RecordState.ACQUIRED:
                self._lock_ends = earliest(self._lock_ends, part.locked_until)
        self._settle()

    def _settle(self) -> None:
        """After states have changed: equal neighbours are one part, and the start moves."""
        self._has_available = True
        for batch in self.batches:
            batch.join()
        self.advance()

    # Locks ------------------------------------------------------------------------------------

    def _lock(self, part: Part, now: Instant) -> None:
        part.locked_until = Instant(now + self.settings.lock_ms)
        self.note_lock(part.locked_until)

    def note_lock(self, until: Instant) -> None:
        """A lock ends then."""
        self._lock_ends = earliest(self._lock_ends, until)

    def deadline(self) -> Instant | None:
        """When a lock may end."""
        return self._lock_ends

    def wake(self, now: Instant) -> Change | None:
        """Takes back records whose locks have ended. The change counts already; it is to be written
        and then finished."""
        if self._lock_ends is None or self._lock_ends > now:
            return None
        change, self._lock_ends = Change(), None
        for part in self._parts():
            if part.state is not RecordState.ACQUIRED:
                continue
            assert part.locked_until is not None, f"{part} has no lock"
            if part.locked_until <= now:
                part.release(self.settings.delivery_count_limit)
                change.write(part)
            else:
                self.note_lock(part.locked_until)
        self._has_available = True
        return change if change.batches else None

    # What is done with ------------------------------------------------------------------------

    def advance(self) -> None:
        """Moves the start behind all that is done with."""
        start = self.end
        for part in self._parts():
            if not part.is_done:
                start = part.first
                break
        self._begin_at(start)

    def on_log_start(self, log_start: int) -> None:
        """The log has nothing below any more."""
        if log_start > self.start:
            self._begin_at(log_start)
            self.advance()

    def _begin_at(self, start: int) -> None:
        gone = bisect_right(self.batches, start, key=_FIRST)
        if gone and self.batches[gone - 1].last >= start:
            gone -= 1
        for batch in self.batches[:gone]:
            for part in batch.parts:
                part.archive()
        del self.batches[:gone]
        if self.batches and self.batches[0].first < start:
            for part in self.batches[0].within(self.batches[0].first, start - 1):
                part.archive()
            self.batches[0].drop_before(start)
        self.start, self.end = start, max(self.end, start)

    def archive(self, first: int, last: int, state: RecordState) -> bool:
        """Archives what is in this state within a range; returns whether there was anything."""
        found = False
        for batch in self.overlapping(first, last):
            if any(part.state is state and part.change is None for part in batch.parts):
                for part in batch.within(first, last):
                    if part.state is state and part.change is None:
                        part.archive()
                        found = True
                batch.join()
        return found

    def append(self, spans: Sequence[Span], acquired: int, member_id: str, now: Instant) -> None:
        """New batches at the end. A member has acquired the first so many of their offsets; the
        others are available."""
        until = Instant(now + self.settings.lock_ms)
        for span in spans:
            batch = Batch.of(span.first, span.last, RecordState.AVAILABLE, 0)
            self.batches.append(batch)
            if acquired > 0:
                batch.cut(batch.parts[0], acquired)
                batch.parts[0].acquire(member_id, until)
                self.note_lock(until)
            self._has_available |= len(batch.parts) > 1
            acquired -= batch.size
        if len(self.batches) == len(spans):
            self.start = spans[0].first
        self.end = spans[-1].last + 1

    def check(self) -> None:
        """Asserts the invariants of the module's docstring."""
        reached = self.start
        for batch in self.batches:
            batch.check()
            assert batch.first >= reached, f"OneOwner: {batch.first} below {reached} of {self.key}"
            reached = batch.last + 1
        assert reached <= self.end, f"AcknowledgedIsDone: {reached} is beyond the end of {self.key}"
        acquired = [part for part in self._parts() if part.state is RecordState.ACQUIRED]
        for part in acquired:
            assert self._lock_ends is not None and part.locked_until is not None, f"{part}"
            assert self._lock_ends <= part.locked_until, f"the lock of {part} ends unseen"
        if not self._has_available:
            assert not any(part.is_available for part in self._parts()), f"{self.key} hides records"


def _runs(wanted: Acknowledgement, start: int) -> Iterator[tuple[int, int, int]]:
    """(first, last, type) of neighbouring offsets from `start` on that have the same type."""
    types = wanted.types
    if len(types) == 1:
        yield max(wanted.first, start), wanted.last, types[0]
        return
    run = max(0, start - wanted.first)
    for index in range(run + 1, len(types) + 1):
        if index == len(types) or types[index] != types[run]:
            yield wanted.first + run, wanted.first + index - 1, types[run]
            run = index

"""Records between the start and the end of a share partition: batches of offsets, and their parts.

A batch is what was acquired at once. As long as it is treated as a whole it is one part; when a
member acknowledges some of its records, or some of them time out, it is split into as many parts as
there are runs of equal records. So no object exists for a record unless its neighbours differ, and
parts that have become equal again are joined.

    AVAILABLE ──acquire──> ACQUIRED ──accept──────────────────────────────> ACKNOWLEDGED
        ^                     │ ├────reject, gap────────────────────────────> ARCHIVED
        └─release, time-out───┘ └────release, time-out, delivered too often─────^

An acknowledgement is a *change*: it counts when the share coordinator has written it, and it is
taken back when that fails. While a change is under way no member can acquire, acknowledge or
release its records. A lock that ends meanwhile counts when the change is taken back.

Invariants (`check`): the parts of a batch cover it, in order and without holes; an acquired part
has an owner and a lock; a part that is no longer acquired has neither, unless its change is under
way.

Source: KIP-932; KIP-1222 for renewals.
"""

from dataclasses import dataclass, field

from tidelog.env.instant import Instant
from tidelog.sharing.values import TERMINAL, RecordState, StateBatch

NO_MEMBER = ""
"""Stands for the member of records that are not acquired."""


@dataclass(slots=True, eq=False)
class Change:
    """Records whose new states are to be written, and then count."""

    # The parts that it changes; more of them when a part is split meanwhile.
    parts: list["Part"] = field(default_factory=list)
    # What is written, ascending.
    batches: list[StateBatch] = field(default_factory=list)

    def add(self, part: "Part") -> None:
        """A part has been changed."""
        self.parts.append(part)
        self.write(part)

    def write(self, part: "Part") -> None:
        """The state of the part is written as it is now."""
        row = StateBatch(part.first, part.last, part.state, part.delivery_count)
        if self.batches:
            before = self.batches[-1]
            if before.last + 1 == row.first and before[2:] == row[2:]:
                self.batches[-1] = before._replace(last=row.last)
                return
        self.batches.append(row)


@dataclass(slots=True, eq=False)
class Part:
    """Neighbouring offsets that are alike in everything."""

    # Inclusive.
    first: int
    last: int
    state: RecordState
    # How often the records were delivered, the current delivery included.
    delivery_count: int
    # Who has them; `NO_MEMBER` unless they are acquired.
    member_id: str = NO_MEMBER
    # When the lock ends, while they are acquired or a change of acquired records is under way.
    locked_until: Instant | None = None
    # The change that is under way, and the member that they go back to if it fails.
    change: Change | None = None
    owner: str = NO_MEMBER

    @property
    def is_available(self) -> bool:
        """Whether a member may acquire them."""
        return self.state is RecordState.AVAILABLE and self.change is None

    @property
    def is_done(self) -> bool:
        """Whether they will never be delivered again."""
        return self.state in TERMINAL and self.change is None

    def acquire(self, member_id: str, locked_until: Instant) -> None:
        """Delivers them to a member."""
        assert self.is_available, f"{self} is acquired twice"
        self.state = RecordState.ACQUIRED
        self.delivery_count += 1
        self.member_id = member_id
        self.locked_until = locked_until

    def begin(self, change: Change, state: RecordState, limit: int) -> None:
        """Begins a change of acquired records."""
        assert self.state is RecordState.ACQUIRED and self.change is None, f"{self} is not acquired"
        self.change, self.owner = change, self.member_id
        self.state, self.member_id = self._limited(state, limit), NO_MEMBER
        change.add(self)

    def _limited(self, state: RecordState, limit: int) -> RecordState:
        """Records that were delivered as often as they may be do not become available again."""
        if state is RecordState.AVAILABLE and self.delivery_count >= limit:
            return RecordState.ARCHIVED
        return state

    def commit(self) -> None:
        """The change counts."""
        self.change, self.owner, self.locked_until = None, NO_MEMBER, None

    def roll_back(self, now: Instant, limit: int) -> None:
        """The change has failed: the member has the records again, if its lock lasts."""
        assert self.locked_until is not None, f"{self} had no lock"
        self.change = None
        if self.locked_until > now:
            self.state, self.member_id = RecordState.ACQUIRED, self.owner
            self.owner = NO_MEMBER
        else:
            self.owner = NO_MEMBER
            self.release(limit)

    def release(self, limit: int) -> None:
        """The lock has ended."""
        self.state = self._limited(RecordState.AVAILABLE, limit)
        self.member_id, self.locked_until = NO_MEMBER, None

    def archive(self) -> None:
        """The records are not to be delivered any more, whatever was under way for them."""
        self.state = RecordState.ARCHIVED
        self.member_id = self.owner = NO_MEMBER
        self.locked_until = self.change = None

    def split(self, offset: int) -> "Part":
        """Cuts the part before this offset; returns what begins there."""
        assert self.first < offset <= self.last, f"{self} is not split at {offset}"
        rest = Part(
            offset,
            self.last,
            self.state,
            self.delivery_count,
            self.member_id,
            self.locked_until,
            self.change,
            self.owner,
        )
        if self.change is not None:
            self.change.parts.append(rest)
        self.last = offset - 1
        return rest

    def is_like(self, other: "Part") -> bool:
        """Whether the two can be one part."""
        return (
            self.change is None
            and other.change is None
            and self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.member_id == other.member_id
            and self.locked_until == other.locked_until
        )


@dataclass(slots=True, eq=False)
class Batch:
    """What was acquired at once."""

    # Ascending, without holes.
    parts: list[Part]
    # How many offsets it had when it was made; throttled deliveries are fractions of it.
    size: int

    @classmethod
    def of(cls, first: int, last: int, state: RecordState, delivery_count: int) -> "Batch":
        """A batch of one part."""
        return cls([Part(first, last, state, delivery_count)], last - first + 1)

    @property
    def first(self) -> int:
        """Inclusive."""
        return self.parts[0].first

    @property
    def last(self) -> int:
        """Inclusive."""
        return self.parts[-1].last

    def within(self, first: int, last: int) -> list[Part]:
        """The parts that cover what the batch has of this range; splits those that cross its
        ends."""
        found: list[Part] = []
        index = 0
        while index < len(self.parts):
            part = self.parts[index]
            if part.last >= first and part.first <= last:
                if part.first < first:
                    self.parts.insert(index + 1, part.split(first))
                    index += 1
                    continue
                if part.last > last:
                    self.parts.insert(index + 1, part.split(last + 1))
                found.append(part)
            index += 1
        return found

    def cut(self, part: Part, count: int) -> None:
        """Leaves this many offsets to a part, and gives the others to a new one."""
        if count < part.last - part.first + 1:
            self.parts.insert(self.parts.index(part) + 1, part.split(part.first + count))

    def drop_before(self, offset: int) -> None:
        """Forgets the offsets before this one, which is within the batch."""
        self.within(offset, self.last)
        self.parts = [part for part in self.parts if part.first >= offset]

    def join(self) -> None:
        """Makes one part of neighbours that are alike."""
        if len(self.parts) == 1:
            return
        joined = [self.parts[0]]
        for part in self.parts[1:]:
            if joined[-1].is_like(part):
                joined[-1].last = part.last
            else:
                joined.append(part)
        self.parts = joined

    def check(self) -> None:
        """Asserts the invariants of the module's docstring."""
        for before, after in zip(self.parts, self.parts[1:], strict=False):
            assert before.last + 1 == after.first, f"a hole after {before}"
        for part in self.parts:
            assert part.first <= part.last, f"{part} is empty"
            acquired = part.state is RecordState.ACQUIRED
            assert acquired == (part.member_id != NO_MEMBER), f"{part} has the wrong owner"
            locked = acquired or part.change is not None
            assert locked == (part.locked_until is not None), f"{part} has no lock, or one too many"
            assert not acquired or part.change is None, f"{part} is acquired and changing"

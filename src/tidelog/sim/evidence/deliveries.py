"""What the members of a share group were given of each partition, and what they have settled.

The members of the simulation write it down as they see it, at their end of the wire. So a member
knows that it has a record from when its answer came, and for how long only roughly: the lock began
after its request left. What is judged holds whatever happened in between.

- OneOwner: no other member receives a record within half the time of the lock, from the same leader
  in the same term, unless the member has given it back or its connection has ended, be it at the
  leader's end alone. An earlier delivery that arrives after a later one does not count, if its
  lock may have been over.
- AcknowledgedIsDone: a record whose acceptance or rejection was answered is not received by a
  member that asks after that, from a leader of the same term or of a later one. A deposed
  leader that does not know its successor delivers on; the coordinator refuses what it writes.
- CountedDeliveries: no record arrives with a higher count than the limit.
- DeliveredAtLeastOnce: at the end every offset of a partition below the start of its share
  partition was received by some member, or went with the start of the log. It may also have been
  lost on its way as often as the limit allows; so where that many answers were lost this is not
  judged.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.model import TopicId
from tidelog.sim.report.violation import Violation


class SharedPlace(NamedTuple):
    """A partition that is shared."""

    topic_id: TopicId
    partition: int


class Leadership(NamedTuple):
    """A term of a process that leads a partition."""

    node_id: int
    life: int
    leader_epoch: int


@dataclass(slots=True)
class Claim:
    """A member has a record."""

    member_id: str
    # When it asked for it, and of whom; `None` when that is not certain.
    asked_at: int
    leadership: Leadership | None
    received_at: int
    delivery_count: int
    is_connected: Callable[[], bool]
    is_over: bool = False


class Reception(NamedTuple):
    """A range that came in an answer."""

    place: SharedPlace
    first: int
    last: int
    delivery_count: int
    member_id: str
    asked_at: int
    leadership: Leadership | None
    # Whether the connection that it came on is there at both ends.
    is_connected: Callable[[], bool]


@dataclass(slots=True)
class _Record:
    """One offset."""

    claim: Claim
    # When it was settled for good, and under which leader epoch; `None` before.
    settled: tuple[int, int] | None = None


@dataclass(slots=True)
class Deliveries:
    """All that one share group was given."""

    lock_ms: int
    limit: int
    # How many answers to fetches were lost, with whatever they had.
    lost: int = 0
    _records: dict[SharedPlace, dict[int, _Record]] = field(default_factory=dict)

    @property
    def settled_count(self) -> int:
        """How many records were accepted or rejected."""
        return sum(
            record.settled is not None
            for records in self._records.values()
            for record in records.values()
        )

    def receive(self, got: Reception, now: int) -> None:
        """A member has received a range."""
        if got.delivery_count > self.limit:
            raise Violation("CountedDeliveries", f"{got} with a limit of {self.limit}")
        records = self._records.setdefault(got.place, {})
        for offset in range(got.first, got.last + 1):
            claim = Claim(
                got.member_id,
                got.asked_at,
                got.leadership,
                now,
                got.delivery_count,
                got.is_connected,
            )
            known = records.get(offset)
            if known is None:
                records[offset] = _Record(claim)
                continue
            if known.settled is not None and _comes_behind(got, *known.settled):
                settled_at, epoch = known.settled
                raise Violation(
                    "AcknowledgedIsDone", f"{got} at {now}, settled at {settled_at} in {epoch}"
                )
            before = known.claim
            if self._is_late(got, before):
                continue
            if (
                not before.is_over
                and before.leadership is not None
                and before.leadership == got.leadership
                and now < before.asked_at + self.lock_ms // 2
                and before.is_connected()
            ):
                raise Violation("OneOwner", f"{got} at {now}, but {offset} is with {before}")
            known.claim = claim

    def _is_late(self, got: Reception, before: Claim) -> bool:
        """Whether an answer was under way for so long that its lock may have been over when the
        record went to the member that has it now."""
        return (
            before.leadership == got.leadership
            and got.delivery_count < before.delivery_count
            and before.received_at >= got.asked_at + self.lock_ms // 2
        )

    def give_back(self, place: SharedPlace, offsets: Iterable[int], member_id: str) -> None:
        """A member does not count on these records any more."""
        records = self._records.get(place, {})
        for offset in offsets:
            record = records.get(offset)
            if record is not None and record.claim.member_id == member_id:
                record.claim.is_over = True

    def settle(
        self, place: SharedPlace, offsets: Iterable[int], leader_epoch: int, now: int
    ) -> None:
        """The acceptance or rejection of these records was answered by a leader of this epoch."""
        records = self._records.get(place, {})
        for offset in offsets:
            if records[offset].settled is None:
                records[offset].settled = (now, leader_epoch)

    def judge(self, place: SharedPlace, log_start: int, start: int) -> None:
        """The group is done with everything below `start`."""
        records = self._records.get(place, {})
        missing = [each for each in range(log_start, start) if each not in records]
        if missing and self.lost < self.limit:
            raise Violation(
                "DeliveredAtLeastOnce", f"{place}: no member received {missing[:10]} below {start}"
            )


def _comes_behind(got: Reception, settled_at: int, leader_epoch: int) -> bool:
    """Whether the leader must have known that the record was settled."""
    term = got.leadership
    return got.asked_at >= settled_at and term is not None and term.leader_epoch >= leader_epoch

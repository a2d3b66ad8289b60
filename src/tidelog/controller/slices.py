"""Long decisions, a slice a turn.

Theory. A broker that dies, returns or leaves may change ten thousand partitions, and one request
may ask for as many. Decided, encoded, appended and replayed in one go that takes a node a third of
a second, and meanwhile it answers neither its quorum nor the brokers. So a decider whose work grows
with the partitions is a generator: it yields a decision of at most `MAX_CHANGES_PER_TURN` changes,
and is sent the view of the turn that follows, which has everything that was decided meanwhile. What
it returns is the decision that ends it. One of its decisions has the response, as a rule the last,
so that the answer leaves when all of it is committed.

What is atomic: a slice is a batch, and nothing more. Every prefix of the slices leaves metadata
that is valid and that the rest follows from, so that the next controller finishes what this one
began: a broker that has left half of its ISRs is still unfenced, and is fenced once more; a
controlled shutdown goes on with the next heartbeat; elections that are missing are held at the
activation. That is Kafka's order of the records, so an Apache Kafka controller finishes it too.

Partitions are chosen at the beginning and looked at again when it is their turn: one that was
deleted, or that something else has changed, is decided as it is then.

**Departures go first, one after the other.** A broker that is leaving all ISRs counts as gone from
the first slice to the last (`View.departing`): no decision elects it, takes it into an ISR or
places a leader on it, and its heartbeats change nothing. One that waits for its first slice still
counts: were two gone at once, a partition that only they have in sync would lose its leader for
nothing. Other long decisions wait for a departure, and take turns among themselves. Only what
leaders propose takes turns with the departure: they ask for partitions with records that wait for
the broker that is gone, and most of the others have none (decision 0031).

Source: the order of records is that of Kafka's replication control (KIP-631, KIP-841).
"""

from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar

from tidelog.controller.view import ControllerDecision, View
from tidelog.limits import MAX_CHANGES_PER_TURN, MAX_LONG_DECISIONS
from tidelog.metadata.records import MetadataRecord
from tidelog.model import NO_LEADER

Item = TypeVar("Item")
Returned = TypeVar("Returned")

Steps: TypeAlias = Generator[ControllerDecision, View, Returned]
"""Yields the decision of a turn, is sent the view of the next."""
Slices: TypeAlias = Steps[ControllerDecision]
"""A decision in slices, the last of which it returns."""


class Rest(NamedTuple):
    """The last slice of a list of changes, for the caller to append with what comes after it."""

    view: View
    """That the records were decided by."""
    records: list[MetadataRecord]
    changed: int
    """Records of all slices."""


def a_slice(records: Sequence[MetadataRecord]) -> ControllerDecision:
    """What is decided in one turn, before the last."""
    return ControllerDecision(None, records, atomic=False)


def in_slices(
    view: View, items: Iterable[Item], decide: Callable[[View, Item], MetadataRecord | None]
) -> Steps[Rest]:
    """Decides one item after the other; all but the last slice are yielded."""
    records: list[MetadataRecord] = []
    changed = 0
    for number, item in enumerate(items):
        if number and number % MAX_CHANGES_PER_TURN == 0:
            view = yield a_slice(records)
            records = []
        record = decide(view, item)
        if record is not None:
            records.append(record)
            changed += 1
    return Rest(view, records, changed)


@dataclass(slots=True, eq=False)
class Long:
    """One long decision, begun or not."""

    begin: Callable[[View], Slices]
    # Who is to be answered; None for a duty of the controller, or since the answer was given.
    reply_to: Hashable | None = None
    # The broker that leaves all ISRs by it; asked for at its first turn.
    departing_by: Callable[[], int] = lambda: NO_LEADER
    departing: int = NO_LEADER
    # Whether it takes turns with a departure.
    is_urgent: bool = False
    # None before its first turn.
    slices: Slices | None = None

    def decide(self, view: View) -> tuple[ControllerDecision, bool]:
        """The next slice, and whether it is the last. Raises `ProtocolError`, which ends it."""
        try:
            if self.slices is None:
                self.departing = self.departing_by()
                self.slices = self.begin(view)
                return next(self.slices), False
            return self.slices.send(view), False
        except StopIteration as end:
            last: ControllerDecision = end.value
            return last, True


class LongDecisions:
    """The long decisions under way, and what this turn has left for them."""

    def __init__(self) -> None:
        # In the order of their turns; a departure that has begun is the first, or the second after
        # an urgent one.
        self._waiting: deque[Long] = deque()
        # Changes decided in this turn.
        self._changes = 0
        # The broker of the departure that has begun; at most one.
        self.departing: frozenset[int] = frozenset()

    def begin_turn(self) -> None:
        """The node has looked at its connections."""
        self._changes = 0

    @property
    def has_room(self) -> bool:
        """Whether one more may wait."""
        return len(self._waiting) < MAX_LONG_DECISIONS

    @property
    def has_any(self) -> bool:
        """Whether another turn is needed."""
        return bool(self._waiting)

    def add(self, long: Long) -> None:
        """It waits for its first turn."""
        self._waiting.append(long)

    def take(self) -> Long | None:
        """The one whose turn it is, unless this turn of the node is used up."""
        if not self._waiting or self._changes >= MAX_CHANGES_PER_TURN:
            return None
        return self._waiting.popleft()

    def on_decided(self, long: Long, decision: ControllerDecision, *, is_last: bool) -> None:
        """A slice of one that was taken is decided and will be appended."""
        # All but the last use up the turn.
        self._changes += len(decision.records) if is_last else MAX_CHANGES_PER_TURN
        if long.departing != NO_LEADER:
            assert self.departing <= {long.departing}, f"{self.departing}, and {long.departing}"
            self.departing = frozenset() if is_last else frozenset((long.departing,))
            if not is_last:
                self._waiting.appendleft(long)
                urgent = next((each for each in self._waiting if each.is_urgent), None)
                if urgent is not None:
                    self._waiting.remove(urgent)
                    self._waiting.appendleft(urgent)
        elif not is_last:
            self._waiting.append(long)

    def clear(self) -> list[Hashable]:
        """Gives all of them up; who is to be answered."""
        waiting, self._waiting = self._waiting, deque()
        self.departing = frozenset()
        return [long.reply_to for long in waiting if long.reply_to is not None]

"""A pass over all hosted replicas, cut into slices so that no turn is long.

Each slice comes a millisecond after the one before, with everything that has arrived meanwhile
before it. A replica that is dropped before its turn is still handed out; one that is hosted after
the beginning is not.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from tidelog.env.instant import LONG_AGO, Instant
from tidelog.limits import MAX_REPLICAS_CHECKED_PER_TURN
from tidelog.replication.partition import Partition


class Sweep:
    """One kind of pass."""

    __slots__ = ("_per_turn", "_rest", "next_at", "taken_at")

    def __init__(self, per_turn: int = MAX_REPLICAS_CHECKED_PER_TURN) -> None:
        # Replicas of one slice.
        self._per_turn = per_turn
        # Those that have not had their turn.
        self._rest: Iterator[Partition] = iter(())
        # When the next slice is due; `None` while no pass is under way.
        self.next_at: Instant | None = None
        # When a slice was taken last, or the pass began.
        self.taken_at: Instant = LONG_AGO

    def begin(self, partitions: Iterable[Partition], now: Instant) -> None:
        """Begins with the first slice, due at once; a pass that is under way begins anew."""
        self._rest = iter(list(partitions))
        self.next_at = self.taken_at = now

    def abandon(self) -> None:
        """Nothing more is handed out."""
        self.next_at = None

    def take(self, now: Instant) -> Sequence[Partition]:
        """The next slice, if it is due."""
        if self.next_at is None or now < self.next_at:
            return ()
        taken = list(islice(self._rest, self._per_turn))
        is_last = len(taken) < self._per_turn
        self.next_at = None if is_last else Instant(now + 1)
        self.taken_at = now
        return taken

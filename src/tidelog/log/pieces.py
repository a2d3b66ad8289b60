"""Long work on one log in pieces, so that a start can do some of it a turn.

To open a log after a crash may mean to walk gigabytes of batches, and to open, index and sync
thousands of segments. Functions that do so are generators: each yields what it has just spent, in
the unit of `limits.REPLICA_WORK_PER_TURN`, wherever the rest may wait, and returns its result. The
log is in no map of the node meanwhile. A process may end at each such place, as it may at any
other: what is on the disk then is what a crash in the middle leaves.
"""

from collections.abc import Generator
from typing import Final, TypeVar

from tidelog.limits import BATCH_WALKING_WORK, REPLICA_WORK_PER_TURN

T = TypeVar("T")

Pieces = Generator[int, None, T]
"""Work with a result of this type; yields the price of what was just done."""

_BYTES_PER_UNIT: Final = 1024
_PIECE: Final = REPLICA_WORK_PER_TURN // 8


def finish(pieces: Pieces[T]) -> T:
    """Does all of it now."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            result: T = end.value
            return result


class Walk:
    """Counts what a walk over batches costs."""

    __slots__ = ("_spent",)

    def __init__(self) -> None:
        # Since the last piece.
        self._spent = 0

    def passed(self, size_bytes: int) -> int:
        """A batch was looked at; returns the price of a piece when it is time to yield it."""
        self._spent += BATCH_WALKING_WORK + size_bytes // _BYTES_PER_UNIT
        if self._spent < _PIECE:
            return 0
        spent, self._spent = self._spent, 0
        return spent

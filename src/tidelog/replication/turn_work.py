"""How much more a turn may do of what takes long: one budget for all that makes files, and for what
else takes milliseconds.

What arrives in a turn (requests, answers of leaders) and what the tick after it does by itself (to
follow the metadata) share the budget. Each piece of work has a price in `limits`; where the budget
is spent, the rest is left to the turns that follow at once. A tick always has a share, however
much has arrived, and what arrives has the whole budget. So neither starves, and both together
spend little more than one budget (*BoundedTurn*, `docs/protocol/turns.md`).

Parts of the tick that have a slice of their own, as long decisions, the reading of a large fetch
and checkpoints have, do it where the budget is not spent, and otherwise the next time, whatever is
left then (`TickPart`).
"""

from enum import Enum, auto
from typing import Final

from tidelog.env.instant import LONG_AGO, Instant

_SHARE_OF_TICK: Final = 4
"""The part of a budget that a tick has at least."""


class TickPart(Enum):
    """Parts of a tick that can wait for the next one."""

    DECISIONS = auto()
    """The active controller goes on with what it decides in slices."""
    READING = auto()
    """A leader goes on reading a fetch of many partitions."""
    CHECKPOINTS = auto()
    """The offsets of all logs of a directory are written, by their time or without renamed logs."""


class TurnWork:
    """What a node may still do in this turn; the unit is that of `limits.REPLICA_WORK_PER_TURN`."""

    __slots__ = ("_has_inputs", "_has_waited", "_per_turn", "_ticked_at", "left")

    def __init__(self, per_turn: int) -> None:
        # The budget of a turn.
        self._per_turn = per_turn
        # How much of it is left; negative after a last piece that was too large.
        self.left = per_turn
        # Parts of the tick that waited when they last had something to do.
        self._has_waited: set[TickPart] = set()
        # Whether anything has arrived since the last tick.
        self._has_inputs = False
        # The last tick.
        self._ticked_at: Instant = LONG_AGO

    @property
    def is_spent(self) -> bool:
        """Whether the rest has to wait for the next turn."""
        return self.left <= 0

    def spend(self, work: int) -> None:
        """So much was done."""
        self.left -= work

    def lets(self, part: TickPart) -> bool:
        """Whether a part of the tick does its slice now: it waits where the budget is spent, but
        not twice in a row."""
        if self.is_spent and part not in self._has_waited:
            self._has_waited.add(part)
            return False
        self._has_waited.discard(part)
        return True

    def on_input(self) -> None:
        """Something arrives; the first input after a tick begins a turn."""
        if not self._has_inputs:
            self._has_inputs = True
            self.left = self._per_turn

    def on_tick(self, now: Instant) -> None:
        """A tick begins, or goes on: then nothing changes."""
        if self._has_inputs:
            self._has_inputs = False
            self.left = max(self.left, 1, self._per_turn // _SHARE_OF_TICK)
        elif now > self._ticked_at:
            self.left = self._per_turn
        self._ticked_at = now

"""Time as the core sees it: integers that a driver hands in, never a clock.

`Instant` is monotonic milliseconds with an arbitrary zero; it orders events and measures timeouts.
Wall time exists only as record timestamps: `WallClock` carries how far wall time is ahead of the
monotonic zero, and a driver sends a new one when the two drift apart.
"""

from typing import Final, NewType

Instant = NewType("Instant", int)
"""Monotonic milliseconds."""

NEVER: Final = Instant(2**62)
"""Later than every deadline."""

LONG_AGO: Final = Instant(-(2**62))
"""Before every instant; the monotonic zero is arbitrary, so 0 would not do."""


def earliest(*deadlines: "Instant | None") -> "Instant | None":
    """The first of the given deadlines, `None` when there is none."""
    first = None
    # A loop, because a list and its minimum take twice as long. Every tick asks every component.
    for deadline in deadlines:
        if deadline is not None and (first is None or deadline < first):
            first = deadline
    return first

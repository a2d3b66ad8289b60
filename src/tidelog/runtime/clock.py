"""Time for the core: monotonic milliseconds, and how far wall time is ahead of them."""

import time
from typing import Final

from tidelog.env.effects import WallClock
from tidelog.env.instant import Instant

WALL_DRIFT_MS: Final = 5
"""Wall time may slip this far from what the core was told before it is told again."""


def now() -> Instant:
    """Monotonic milliseconds."""
    return Instant(time.monotonic_ns() // 1_000_000)


class WallOffset:
    """Watches the distance between wall time and monotonic time (NTP steps, suspend)."""

    __slots__ = ("_told_ms",)

    def __init__(self) -> None:
        # The offset that the core knows; `None` before the first.
        self._told_ms: int | None = None

    def observe(self) -> WallClock | None:
        """The input for the core when it has to learn a new offset, else `None`."""
        offset_ms = time.time_ns() // 1_000_000 - time.monotonic_ns() // 1_000_000
        if self._told_ms is not None and abs(offset_ms - self._told_ms) <= WALL_DRIFT_MS:
            return None
        self._told_ms = offset_ms
        return WallClock(offset_ms)

"""Time for the core: monotonic milliseconds, and how far wall time is ahead of them."""

import time
from typing import Final

from tidelog.env.effects import WallClock
from tidelog.env.instant import Instant

WALL_DRIFT_MS: Final = 5
"""How far the offset may drift before the core gets a new one."""


def now() -> Instant:
    """Monotonic milliseconds."""
    return Instant(time.monotonic_ns() // 1_000_000)


class WallOffset:
    """Watches the distance between wall time and monotonic time (NTP steps, suspend)."""

    __slots__ = ("_reported_ms",)

    def __init__(self) -> None:
        # The offset that the core got last; `None` before the first.
        self._reported_ms: int | None = None

    def observe(self) -> WallClock | None:
        """The input with a new offset when the core needs one, else `None`."""
        offset_ms = time.time_ns() // 1_000_000 - time.monotonic_ns() // 1_000_000
        if self._reported_ms is not None and abs(offset_ms - self._reported_ms) <= WALL_DRIFT_MS:
            return None
        self._reported_ms = offset_ms
        return WallClock(offset_ms)

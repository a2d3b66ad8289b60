"""The package's recurring work, each at its own interval."""

from tidelog.env.instant import Instant


class Recurring:
    """Something to do again and again. The first time is one interval after `start`."""

    __slots__ = ("due_at", "interval_ms")

    def __init__(self, interval_ms: int) -> None:
        assert interval_ms > 0, f"interval of {interval_ms} ms"
        self.interval_ms = interval_ms
        # The next time; `None` before `start`.
        self.due_at: Instant | None = None

    def start(self, now: Instant) -> None:
        """Begins, unless it has begun."""
        if self.due_at is None:
            self.due_at = Instant(now + self.interval_ms)

    def due(self, now: Instant) -> int | None:
        """How late it is, when it is time to do it. The next time is one interval from now, so
        that a pause of the process does not make up for what it missed."""
        if self.due_at is None or now < self.due_at:
            return None
        late_ms = now - self.due_at
        self.due_at = Instant(now + self.interval_ms)
        return late_ms

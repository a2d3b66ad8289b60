"""What the active controller does by itself every so often: one `Round` per duty.

A round is soft state, like the sessions: it begins anew with each activation, a whole interval
away, so that a quorum that changes its leader often does not do the same work often. A round that
met its bound before it was through goes on at once, in the next wake: requests that arrived in
the meantime come first.
"""

from tidelog.env.instant import Instant


class Round:
    """One duty and when it is due."""

    __slots__ = ("_interval_ms", "due_at")

    def __init__(self, interval_ms: int) -> None:
        """An interval of 0 is never."""
        # Time between the end of one round and the next.
        self._interval_ms = interval_ms
        # When to go round next; `None` while the controller is not active, or for a duty that is
        # switched off.
        self.due_at: Instant | None = None

    def start(self, now: Instant) -> None:
        """The first round is due an interval from now."""
        self.due_at = Instant(now + self._interval_ms) if self._interval_ms else None

    def stop(self) -> None:
        """No more rounds."""
        self.due_at = None

    def is_due(self, now: Instant) -> bool:
        """Whether it is time."""
        return self.due_at is not None and now >= self.due_at

    def finish(self, now: Instant, *, complete: bool) -> None:
        """A round was made; one that is not complete goes on at once."""
        if complete:
            self.start(now)
        else:
            self.due_at = now

"""Deadlines by key, of which the earliest is found fast.

Most deadlines are sessions that heartbeats move on and on. A heap entry is therefore not moved with
its deadline: when it comes up, it is put back where the deadline has gone meanwhile. A key has one
entry in the heap, or another one for each time that its deadline was moved forward.
"""

from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Generic, TypeVar

from tidelog.env.instant import Instant

Key = TypeVar("Key", bound=Hashable)


class Timers(Generic[Key]):
    """The deadlines of one coordinator."""

    __slots__ = ("_deadlines", "_heap", "_queued")

    def __init__(self) -> None:
        # When each key is due.
        self._deadlines: dict[Key, Instant] = {}
        # Entries at or before the deadline of their key; some of keys that have none any more.
        self._heap: list[tuple[Instant, Key]] = []
        # The earliest entry of each key.
        self._queued: dict[Key, Instant] = {}

    def set(self, key: Key, deadline: Instant) -> None:
        """The key is due then, and no longer when it was."""
        self._deadlines[key] = deadline
        queued = self._queued.get(key)
        if queued is None or deadline < queued:
            self._push(key, deadline)

    def hasten(self, key: Key, deadline: Instant) -> bool:
        """The key is due then if it was due later; returns whether it was."""
        if self._deadlines.get(key, deadline) <= deadline:
            return False
        self.set(key, deadline)
        return True

    def clear(self, key: Key) -> None:
        """The key is not due any more."""
        self._deadlines.pop(key, None)

    def take_due(self, now: Instant) -> Key | None:
        """A key that is due, which it is then no longer."""
        while self._heap and self._heap[0][0] <= now:
            entry, key = heappop(self._heap)
            if self._queued.get(key) != entry:
                continue
            del self._queued[key]
            deadline = self._deadlines.get(key)
            if deadline is None:
                continue
            if deadline <= now:
                del self._deadlines[key]
                return key
            self._push(key, deadline)
        return None

    def next(self) -> Instant | None:
        """No key is due before."""
        return self._heap[0][0] if self._heap else None

    def has(self, key: Key) -> bool:
        """Whether the key has a deadline."""
        return key in self._deadlines

    def _push(self, key: Key, deadline: Instant) -> None:
        self._queued[key] = deadline
        heappush(self._heap, (deadline, key))

    def check(self) -> None:
        """Asserts that no deadline is overlooked."""
        for key, deadline in self._deadlines.items():
            queued = self._queued.get(key)
            assert queued is not None and queued <= deadline, f"{key} is due at {deadline}"

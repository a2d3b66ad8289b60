"""Virtual time: one queue of events for every model, and the record of what happened in it.

Events are ordered by (time, tie-break, sequence). A tie-break drawn from the seed shuffles events
of the same instant, so that no code leans on their order; without a generator they run in the
order in which they were queued. Either way the same seed is the same run, on every machine,
whatever the hash seed of the interpreter.
"""

import hashlib
import heapq
from collections.abc import Callable
from typing import Final

from tidelog.env.event import Event
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.env.trace import TraceLine


class Timeline:
    """The clock of a model and its queue of events. Nothing happens unless time is moved."""

    def __init__(self, ties: Prng | None = None, *, start: int = 0) -> None:
        # The time of the event that runs, or of the last one.
        self.now = Instant(start)
        # Draws one tie-break for each event; `None` for the order of queueing.
        self._ties = ties
        # (time, tie-break, sequence, action).
        self._queue: Final[list[tuple[int, int, int, Callable[[], None]]]] = []
        # Of the event queued last.
        self._sequence = 0

    @property
    def next_at(self) -> Instant | None:
        """The time of the next event; `None` when there is none."""
        return Instant(self._queue[0][0]) if self._queue else None

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Runs an action after a delay."""
        self._sequence += 1
        tie = 0 if self._ties is None else self._ties.next_u64()
        heapq.heappush(self._queue, (self.now + delay_ms, tie, self._sequence, action))

    def _run_first(self) -> None:
        at, _, _, action = heapq.heappop(self._queue)
        assert at >= self.now, "time runs backwards"
        self.now = Instant(at)
        action()

    def run_for(self, duration_ms: int) -> None:
        """Runs all events of the next `duration_ms`."""
        end = self.now + duration_ms
        queue = self._queue
        while queue and queue[0][0] <= end:
            self._run_first()
        self.now = Instant(end)

    def run_until(self, condition: Callable[[], bool], limit_ms: int) -> bool:
        """Runs until the condition holds, for at most `limit_ms`; returns whether it does."""
        end = self.now + limit_ms
        while not condition():
            if not self._queue or self._queue[0][0] > end:
                self.now = Instant(end)
                return condition()
            self._run_first()
        return True


class Simulation(Timeline):
    """A timeline that keeps a trace, and a digest by which two runs are compared."""

    def __init__(self, prng: Prng) -> None:
        super().__init__(prng)
        # The trace of all nodes, in order.
        self.lines: list[str] = []
        # Called with every line of the trace.
        self.listeners: list[Callable[[str], None]] = []
        # Called with the name of a node and what it has decided.
        self.watchers: list[Callable[[str, Event | TraceLine], None]] = []
        # Inputs and ticks that reached nodes.
        self.event_count = 0
        # Of every event and what it made a node do and send; not of the trace, which has levels.
        self.digest = hashlib.blake2b(digest_size=16)

    @property
    def trace_hash(self) -> str:
        """128 bits that two runs share only if the same happened in both."""
        return self.digest.hexdigest()

    def note(self, text: str) -> None:
        """Adds a line to the trace."""
        line = f"{self.now:>8} {text}"
        self.lines.append(line)
        for listener in self.listeners:
            listener(line)


class NodeTrace:
    """Where a node's events go: to its simulation, with the name of the node."""

    def __init__(self, node: str, take: Callable[[str, Event | TraceLine], None]) -> None:
        self._node = node
        self._take = take

    def emit(self, event: Event | TraceLine) -> None:
        """Takes one event."""
        self._take(self._node, event)

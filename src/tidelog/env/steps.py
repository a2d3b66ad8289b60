"""What a node is doing, step by step, for the driver that measures how long it takes.

A turn of the loop is a series of steps: a request, a part of the tick, something that the driver
does by itself. A core has no clock, so it only says which step begins; the driver that listens has
one, and learns that the step before has ended. Nothing in a core depends on the listener.

A step should be named where it may take long, and not more often: what listens reads a clock at
each `begin`. On the paths of every record a part of a step may set `name` alone: then the whole
step has that name.

Source: the named property BoundedTurn (`docs/protocol/turns.md`).
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Pauses:
    """How often and for how long a core has made clients wait, for those who read its figures."""

    # Both by the name of the quota.
    counts: Counter[str] = field(default_factory=Counter)
    sum_ms: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, pause_ms: int) -> None:
        """One more."""
        self.counts[name] += 1
        self.sum_ms[name] += pause_ms


@dataclass(frozen=True, slots=True)
class ClientFigures:
    """What a core counts of its clients, for those who read its figures."""

    pauses: Pauses = field(default_factory=Pauses)
    # Logins by the name of the listener.
    logins: Counter[str] = field(default_factory=Counter)
    failed_logins: Counter[str] = field(default_factory=Counter)


class Steps:
    """The step that one node is in. Its components share it, by their `Trace`."""

    __slots__ = ("connection_id", "count", "listener", "name")

    def __init__(self) -> None:
        # The step that has begun last: an API's name, `metadata`, `snapshot`. One of a small set.
        self.name = ""
        # Of how many things it is, partitions or records; 0 where it was not counted.
        self.count = 0
        # The connection whose client pays for the time of this step; 0 is none.
        self.connection_id = 0
        # Called before the next step begins, while this one still has its name.
        self.listener: Callable[[], object] | None = None

    def begin(self, name: str, count: int = 0) -> None:
        """The step before has ended, and this one begins."""
        if self.listener is not None:
            self.listener()
        self.name = name
        self.count = count
        self.connection_id = 0

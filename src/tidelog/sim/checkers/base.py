"""What checkers are given, and how they speak."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tidelog.sim.history import History, Key, Polled
from tidelog.sim.host import Host
from tidelog.sim.oracle import Oracle
from tidelog.sim.world import World


class Violation(AssertionError):
    """A property does not hold."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


@dataclass(slots=True)
class Evidence:
    """All that there is to look at."""

    world: World
    oracle: Oracle
    history: History
    final: Mapping[Key, tuple[Polled, ...]] = field(default_factory=dict)
    """What a new consumer read from the beginning, at the end of the run."""


class EventChecker(Protocol):
    """Looks at a node after each of its events."""

    name: str

    def on_event(self, evidence: Evidence, host: Host) -> None:
        """Raises `Violation`."""


class SweepChecker(Protocol):
    """Looks at everything every so often."""

    name: str

    def sweep(self, evidence: Evidence) -> None:
        """Raises `Violation`."""


class EndChecker(Protocol):
    """Looks at everything once, after the end of the faults."""

    name: str

    def at_end(self, evidence: Evidence) -> None:
        """Raises `Violation`."""

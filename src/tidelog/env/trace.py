"""The way of events and lines from a component to their readers.

`Trace.event` takes an `Event` (`env/event.py`): everything that a program reads is one. `info`,
`warn` and their like take a line for people that no program reads. Both have the same text form,
`b2 orders-3 on_fetch: ignored (stale leader_epoch) have=7 got=6`: node, subject, handler,
decision, reason, key=value.
"""

from typing import NamedTuple, Protocol

from tidelog.env.event import Event
from tidelog.env.event import Level as Level


class TraceEvent(NamedTuple):
    """One line for people. It answers what an `Event` answers, for sinks that take both."""

    level: Level
    subject: str
    """What it is about: `orders-3`, `quorum`, `broker 2`, `connection 17`."""
    handler: str
    """The function that decided: `on_fetch`, `become_leader`."""
    decision: str
    """What was decided, in one or two words: `ignored`, `elected`, `shrunk`."""
    reason: str
    """Why; empty when the decision says it."""
    values: tuple[tuple[str, object], ...]
    """The numbers at that moment, as (key, value)."""

    def why(self) -> str:
        """The reason."""
        return self.reason

    def shown(self) -> tuple[tuple[str, object], ...]:
        """The (key, value) pairs."""
        return self.values

    def text(self) -> str:
        """The line without the node's name."""
        reason = f" ({self.reason})" if self.reason else ""
        values = "".join(f" {key}={value}" for key, value in self.values)
        return f"{self.subject} {self.handler}: {self.decision}{reason}{values}"


class TraceSink(Protocol):
    """Receives events in the order in which a node decided."""

    def emit(self, event: Event | TraceEvent) -> None:
        """Takes one event or line; must not raise."""


class Trace:
    """What a component holds to emit its events; a thin front of a sink with a level threshold."""

    __slots__ = ("_level", "_sink", "measures")

    def __init__(
        self, sink: TraceSink, level: Level = Level.INFO, *, measures: bool = False
    ) -> None:
        self._sink = sink
        # Whether the sink wants figures as well; independent of the level.
        self.measures = measures
        # Events below this level are dropped before they are built.
        self._level = level

    def enabled(self, level: Level) -> bool:
        """Whether an event of this level would be kept; guards costly arguments."""
        return level >= self._level

    def event(self, event: Event) -> None:
        """A decision that programs read. Where it is made often and below the usual level, guard
        its construction with `enabled`, and figures with `measures`."""
        wanted = self.measures if event.level is Level.MEASURE else event.level >= self._level
        if wanted:
            self._sink.emit(event)

    def debug(
        self, subject: object, handler: str, decision: str, reason: str = "", **values: object
    ) -> None:
        """A routine decision."""
        if self._level <= Level.DEBUG:
            self._emit(Level.DEBUG, subject, handler, decision, reason, values)

    def info(
        self, subject: object, handler: str, decision: str, reason: str = "", **values: object
    ) -> None:
        """A state change."""
        if self._level <= Level.INFO:
            self._emit(Level.INFO, subject, handler, decision, reason, values)

    def warn(
        self, subject: object, handler: str, decision: str, reason: str = "", **values: object
    ) -> None:
        """A fault that was met and handled."""
        if self._level <= Level.WARN:
            self._emit(Level.WARN, subject, handler, decision, reason, values)

    def error(
        self, subject: object, handler: str, decision: str, reason: str = "", **values: object
    ) -> None:
        """A fault that takes something out of service."""
        self._emit(Level.ERROR, subject, handler, decision, reason, values)

    def _emit(
        self,
        level: Level,
        subject: object,
        handler: str,
        decision: str,
        reason: str,
        values: dict[str, object],
    ) -> None:
        event = TraceEvent(level, str(subject), handler, decision, reason, tuple(values.items()))
        self._sink.emit(event)


class TraceList:
    """A sink that keeps events in a list; for tests, scripts and `explain`."""

    __slots__ = ("events",)

    def __init__(self) -> None:
        # In the order of emission.
        self.events: list[Event | TraceEvent] = []

    def emit(self, event: Event | TraceEvent) -> None:
        """Appends the event."""
        self.events.append(event)

    def take_lines(self) -> list[str]:
        """The text of all events since the last call."""
        lines = [event.text() for event in self.events]
        self.events.clear()
        return lines

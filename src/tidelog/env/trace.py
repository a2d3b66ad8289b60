"""How events and lines reach their reader: a component holds a `Trace`, a driver gives its sink.

`Trace.event` takes an `Event` (`env/event.py`): everything that a program reads is one. `debug`,
`info`, `warn` and `error` make a `TraceLine`, which only people read. Both have the same text form,
`orders-3 on_fetch: ignored (stale leader_epoch) have=7 got=6`: subject, handler, decision, reason,
key=value. The driver puts the node's name in front.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from tidelog.env.event import Event
from tidelog.env.event import Level as Level
from tidelog.env.steps import Steps


class TraceLine(NamedTuple):
    """A decision that only people read. Sinks take it as they take an `Event`: both have `level`,
    `subject`, `handler`, `decision`, `why` and `text`."""

    level: Level
    subject: str
    """What it is about: `orders-3`, `quorum`, `broker 2`, `connection 17`."""
    handler: str
    """The function that decided: `on_fetch`, `become_leader`."""
    decision: str
    """What was decided, in one or two words: `ignored`, `elected`, `shrunk`."""
    reason: str
    """Why; empty when the decision says it."""
    values: Mapping[str, object]
    """The numbers at that moment."""

    def why(self) -> str:
        """The reason."""
        return self.reason

    def text(self) -> str:
        """The line without the node's name."""
        reason = f" ({self.reason})" if self.reason else ""
        values = "".join(f" {key}={value}" for key, value in self.values.items())
        return f"{self.subject} {self.handler}: {self.decision}{reason}{values}"


class TraceSink(Protocol):
    """Receives events and lines in the order in which a node decided."""

    def emit(self, event: Event | TraceLine) -> None:
        """Takes one event or line; must not raise."""


class Trace:
    """What a component holds to emit events and lines; drops those below a level."""

    __slots__ = ("_level", "_sink", "measures", "steps")

    def __init__(
        self, sink: TraceSink, level: Level = Level.INFO, *, measures: bool = False
    ) -> None:
        self._sink = sink
        # Whether the sink takes events of `Level.MEASURE`; independent of the level below.
        self.measures = measures
        # Less than this is dropped: a line before it is built, an event when it arrives here.
        self._level = level
        # What the node is doing, for the one that measures how long it takes.
        self.steps = Steps()

    def enabled(self, level: Level) -> bool:
        """Whether an event or a line of this level would be kept; guards costly arguments. Ask
        `measures` for figures."""
        return level >= self._level

    def event(self, event: Event) -> None:
        """A decision that programs read. Where it is made often and below the usual level, guard
        its construction with `enabled`, and figures with `measures`."""
        if self.measures if event.level is Level.MEASURE else event.level >= self._level:
            self._sink.emit(event)

    def debug(
        self, subject: object, handler: str, decision: str, reason: str = "", **values: object
    ) -> None:
        """A routine decision."""
        if self._level <= Level.DEBUG:
            self._sink.emit(TraceLine(Level.DEBUG, str(subject), handler, decision, reason, values))

    def info(
        self, subject: object, handler: str, decision: str, reason: str = "", **values: object
    ) -> None:
        """A state change."""
        if self._level <= Level.INFO:
            self._sink.emit(TraceLine(Level.INFO, str(subject), handler, decision, reason, values))

    def warn(
        self, subject: object, handler: str, decision: str, reason: str = "", **values: object
    ) -> None:
        """A fault that was met and handled."""
        if self._level <= Level.WARN:
            self._sink.emit(TraceLine(Level.WARN, str(subject), handler, decision, reason, values))

    def error(
        self, subject: object, handler: str, decision: str, reason: str = "", **values: object
    ) -> None:
        """A fault that takes something out of service."""
        self._sink.emit(TraceLine(Level.ERROR, str(subject), handler, decision, reason, values))


class TraceList:
    """A sink that keeps events and lines in a list."""

    __slots__ = ("events",)

    def __init__(self) -> None:
        # In the order of emission.
        self.events: list[Event | TraceLine] = []

    def emit(self, event: Event | TraceLine) -> None:
        """Appends the event or line."""
        self.events.append(event)

    def take_lines(self) -> list[str]:
        """The text of all events and lines since the last call."""
        lines = [event.text() for event in self.events]
        self.events.clear()
        return lines

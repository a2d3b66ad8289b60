"""The event that the driver adds to those of its node."""

from typing import ClassVar

from tidelog.env.event import Event, Kind, Level, event


@event("begin", "started", Kind.STARTED, level=Level.MEASURE)
class ProcessStarted(Event):
    """A process of the node began; the first event of its incarnation."""

    subject: ClassVar = "node"
    pid: int


@event("end_turn", "too long", level=Level.WARN)
class TurnTooLong(Event):
    """The loop was held for longer than `limits.MAX_TURN_MS`: BoundedTurn does not hold."""

    subject: ClassVar = "runtime"
    reason: str
    """The longest step of the turn."""
    count: int
    """Of how many things that step was; 0 where it was not counted."""
    step_ms: int
    turn_ms: int
    cpu_ms: int
    """How much of the turn the node worked; for the rest it waited for a processor or the disk."""
    collecting_ms: int
    """How much of the turn went to collecting garbage."""
    unreported: int
    """Long turns since the warning before, for which there was none."""

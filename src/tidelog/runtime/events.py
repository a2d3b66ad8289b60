"""The event that the driver adds to those of its node."""

from typing import ClassVar

from tidelog.env.event import Event, Kind, Level, event


@event("begin", "started", Kind.STARTED, level=Level.MEASURE)
class ProcessStarted(Event):
    """A process of the node began; the first event of its incarnation."""

    subject: ClassVar = "node"
    pid: int

"""The event that the driver adds to those of its node."""

from dataclasses import dataclass
from typing import ClassVar

from tidelog.env.event import Event, Kind, Level


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStarted(Event):
    """A process of the node began; the first event of its incarnation."""

    level: ClassVar = Level.MEASURE
    subject: ClassVar = "node"
    handler: ClassVar = "begin"
    decision: ClassVar = "started"
    kind: ClassVar = Kind.STARTED
    pid: int

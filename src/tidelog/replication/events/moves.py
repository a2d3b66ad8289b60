"""Events of moves: which logs are copied to another log directory, and what became of it."""

from tidelog.env.event import Level, PartitionEvent, event


@event("step", "moves")
class MoveBegan(PartitionEvent):
    """The log of a replica is being copied to another log directory of its node."""

    source: str
    target: str
    log_end: int
    copied_to: int
    """Above 0 where a former process has begun."""


@event("step", "moved")
class MoveEnded(PartitionEvent):
    """The copy is in service, and durable; the former log will be deleted."""

    source: str
    target: str
    log_end: int
    bytes: int
    """Copied by this process."""
    ms: int


@event("give_up", "stays", level=Level.WARN)
class MoveGivenUp(PartitionEvent):
    """The replica stays in its log directory, and the copy will be deleted."""

    reason: str
    """What the device answered, or who wanted it so."""
    target: str

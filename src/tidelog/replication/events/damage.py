"""Events of damaged logs: found, reported, repaired or stuck."""

from enum import StrEnum
from typing import ClassVar

from tidelog.env.event import Level, PartitionEvent, event


@event("open_case", "damaged", level=Level.ERROR)
class LogFoundDamaged(PartitionEvent):
    """A log is out of service, because it does not hold what was written."""

    reason: str
    """What was found."""
    bad_from: int
    hint: str = "nothing to do while another replica is in sync: it is repaired from its leader"


@event("withholds", "lost", level=Level.WARN)
class LogReportedLost(PartitionEvent):
    """The metadata marks a damaged replica as lost."""

    reason: ClassVar = "the controller counts on this replica no longer"

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]


class DamagedLogReason(StrEnum):
    """Why a damaged log is deleted."""

    OTHER_TOPIC = "the damaged log has another topic id"
    NOT_PLACED = "not placed on this node any more"


@event("delete_case", "deleted")
class DamagedLogDeleted(PartitionEvent):
    """A damaged log is of no use to this node."""

    reason: DamagedLogReason


@event("read_lost_log", "sound again", level=Level.WARN)
class LostLogSound(PartitionEvent):
    """A log that a former process reported as lost was read whole."""

    reason: ClassVar = "every batch of the lost log was read"

    log_start: int
    log_end: int


@event("report_stuck", "offline", level=Level.ERROR, about=("partition", "cause"))
class DamagedLogStuck(PartitionEvent):
    """No replica leads that could repair a damaged log: an operator has to decide."""

    cause: str
    """What was found."""
    hint: str

    def why(self) -> str:
        """With the damage."""
        return f"no intact replica leads; {self.cause}"


class RepairReason(StrEnum):
    """Why a damaged log may be cut."""

    LEADER_KNOWN = "another broker leads"
    RECORDS_GIVEN_UP = "unclean.leader.election.enable is true: records are given up"


@event("repair", "cut", level=Level.WARN, about=("partition", "leader"))
class DamagedLogCut(PartitionEvent):
    """What is bad is removed from a damaged log; the rest is in service."""

    reason: RepairReason
    leader: int
    bad_from: int
    was_durable_to: int
    log_start: int
    log_end: int

    def why(self) -> str:
        """With the broker that leads."""
        if self.reason is RepairReason.LEADER_KNOWN:
            return f"broker {self.leader} leads"
        return str(self.reason)

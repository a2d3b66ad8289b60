"""Events of roles: which replicas this node hosts, leads and follows, and which it gave up."""

from enum import StrEnum
from typing import ClassVar, Final

from tidelog.env.event import Kind, Level, PartitionEvent, Payload, event
from tidelog.model import NO_LEADER
from tidelog.replication.events.shape import ReplicasEvent

_STRAY_HINT: Final = (
    "delete the directory that ends in `-stray` when its records are not needed any more"
)


@event("become_leader", "leads", Kind.LEADING)
class LeadershipBegan(PartitionEvent):
    """This node leads a partition in a new leader epoch."""

    leader_epoch: int
    epoch_start: int
    """The log end when the epoch began."""
    high_watermark: int
    isr: tuple[int, ...]


@event("become_follower", kind=Kind.FOLLOWING, about=("partition", "was_leader"))
class FollowingBegan(PartitionEvent):
    """This node follows the leader of a new leader epoch, or waits where there is none."""

    leader: int
    leader_epoch: int
    log_end: int
    high_watermark: int
    was_leader: bool

    @property
    def decision(self) -> str:
        """Whether there is a leader."""
        return "waits" if self.leader == NO_LEADER else "follows"

    def why(self) -> str:
        """The role until now, where it is another."""
        return "was leader" if self.was_leader else ""

    def payload(self) -> Payload:
        """With the former role as a field."""
        return {**dict(self.shown()), "was_leader": self.was_leader}


class DropReason(StrEnum):
    """Why a replica is not hosted any longer."""

    TOPIC_DELETED = "topic deleted"
    ASSIGNED_ELSEWHERE = "assigned elsewhere"
    CREATED_AGAIN = "created again with another topic id"


@event("apply", "dropped")
class ReplicaDropped(PartitionEvent):
    """A replica is not hosted any longer, and its log will be deleted."""

    reason: DropReason
    log_end: int


@event("apply", "deleted")
class OldLogDeleted(PartitionEvent):
    """A log of a former topic of the same name was found, and will be deleted."""

    reason: ClassVar = "the log has another topic id"


@event("apply", "topic id restored", level=Level.WARN)
class TopicIdRestored(PartitionEvent):
    """The topic id of a log was damaged, and is written again."""

    reason: ClassVar = "`partition.metadata` has an id that no topic of this name can have"


@event("open", "set aside", level=Level.WARN)
class UnknownLogSetAside(PartitionEvent):
    """A log cannot say of which topic its records are; its directory is kept under another name,
    and the leader sends its records."""

    reason: ClassVar = "`partition.metadata` does not show whose records these are"
    hint: str = _STRAY_HINT


@event("remove_strays", "set aside", level=Level.WARN)
class StraySetAside(PartitionEvent):
    """The metadata does not place a log on this node; its directory is kept under another name."""

    reason: ClassVar = "not placed on this node"

    hint: str = _STRAY_HINT


@event("go_offline", "offline", Kind.REPLICA_OFFLINE, level=Level.ERROR)
class ReplicaOffline(PartitionEvent):
    """The device failed under a replica."""

    reason: str
    """What the device answered."""


@event("settle", "set aside", level=Level.WARN)
class CopySetAside(PartitionEvent):
    """A partition has logs in two directories; this one is not the replica, and is kept."""

    reason: ClassVar = "another directory has the replica's log"
    root: str


@event("open", "withheld", level=Level.WARN)
class ReplicaOutOfReach(PartitionEvent):
    """The replica's log may be in a directory that is offline: none takes its place."""

    reason: ClassVar = (
        "its log directory is offline; hint: repair the disk, or take it out of `log.dirs` to have "
        "the replica made anew, then start the node again"
    )


@event("end", "cleaned")
class CleaningEnded(PartitionEvent):
    """A round of compaction is over."""

    cleaned_to: int
    """Exclusive."""
    bytes: int
    """Read and written."""
    ms: int


@event("stop", "given up", level=Level.WARN)
class CleaningStopped(PartitionEvent):
    """A round of compaction could not go on; the log is as it was."""

    reason: str
    """What the device answered, or which records cannot be read."""


@event("clear_renamed", "postponed", level=Level.WARN)
class ClearingPostponed(ReplicasEvent):
    """The device failed while the directories of renamed logs were deleted."""

    reason: str
    """What the device answered."""

"""Events of roles: which replicas this node hosts, leads and follows, and which it gave up."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from tidelog.env.event import Kind, Level, PartitionEvent, Payload
from tidelog.model import NO_LEADER
from tidelog.replication.events.shape import ReplicasEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipBegan(PartitionEvent):
    """This node leads a partition in a new leader epoch."""

    handler: ClassVar = "become_leader"
    decision: ClassVar = "leads"
    kind: ClassVar = Kind.LEADING

    leader_epoch: int
    epoch_start: int
    """The log end when the epoch began."""
    high_watermark: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowingBegan(PartitionEvent):
    """This node follows the leader of a new leader epoch, or waits where there is none."""

    about: ClassVar = ("partition", "was_leader")
    handler: ClassVar = "become_follower"
    kind: ClassVar = Kind.FOLLOWING

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDropped(PartitionEvent):
    """A replica is not hosted any longer, and its log will be deleted."""

    handler: ClassVar = "apply"
    decision: ClassVar = "dropped"

    reason: DropReason
    log_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OldLogDeleted(PartitionEvent):
    """A log of a former topic of the same name was found, and will be deleted."""

    handler: ClassVar = "apply"
    decision: ClassVar = "deleted"
    reason: ClassVar = "the log has another topic id"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIdRestored(PartitionEvent):
    """The topic id of a log was damaged, and is written again."""

    level: ClassVar = Level.WARN
    handler: ClassVar = "apply"
    decision: ClassVar = "topic id restored"
    reason: ClassVar = "`partition.metadata` has an id that no topic of this name can have"


@dataclass(frozen=True, slots=True, kw_only=True)
class StraySetAside(PartitionEvent):
    """The metadata does not place a log on this node; its directory is kept under another name."""

    level: ClassVar = Level.WARN
    handler: ClassVar = "remove_strays"
    decision: ClassVar = "set aside"
    reason: ClassVar = "not placed on this node"

    hint: str = (
        "delete the directory that ends in `-stray` when its records are not needed any more"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOffline(PartitionEvent):
    """The device failed under a replica."""

    level: ClassVar = Level.ERROR
    handler: ClassVar = "go_offline"
    decision: ClassVar = "offline"
    kind: ClassVar = Kind.REPLICA_OFFLINE

    reason: str
    """What the device answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearingPostponed(ReplicasEvent):
    """The device failed while the directories of renamed logs were deleted."""

    level: ClassVar = Level.WARN
    handler: ClassVar = "clear_renamed"
    decision: ClassVar = "postponed"

    reason: str
    """What the device answered."""

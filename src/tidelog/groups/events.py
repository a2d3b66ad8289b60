"""What a group coordinator decides, as events: rebalances, with their reasons, and members that go.

Requests that change no membership (heartbeats, commits) leave no event.
"""

from enum import StrEnum
from typing import ClassVar

from tidelog.env.event import Event, Level, event


class RebalanceReason(StrEnum):
    """Why the members of a group are asked to join again."""

    MEMBER_JOINED = "member joined"
    PROTOCOLS_CHANGED = "protocols changed"
    LEADER_JOINED_AGAIN = "leader joined again"
    STATIC_MEMBER_REPLACED = "static member replaced"
    MEMBER_LEFT = "member left"
    MEMBER_EXPIRED = "member expired"
    NOT_SYNCED = "members did not ask for their assignment"
    NOT_WRITTEN = "assignment could not be written"
    DOWNGRADED = "no member speaks the consumer protocol any more"
    TOO_MANY_MEMBERS = "more members than allowed"


class RemovalReason(StrEnum):
    """Why a member is not one any longer."""

    LEFT = "left"
    SILENT = "silent"
    NOT_JOINED = "did not join in time"
    NOT_SYNCED = "did not ask for its assignment"
    NOT_REVOKED = "did not give partitions back in time"


@event(about=("group_id",), noun="group")
class GroupEvent(Event):
    """An event about one group."""

    group_id: str


@event("prepare", "rebalances")
class RebalanceBegan(GroupEvent):
    """The members of a group are asked to join again."""

    reason: RebalanceReason
    generation_id: int
    members: int


@event("complete_join", "begins generation")
class GenerationBegan(GroupEvent):
    """All members have joined, or those that have not were removed; the leader assigns."""

    generation_id: int
    protocol: str
    leader: str
    members: int


@event("complete_join", "is empty")
class GroupEmptied(GroupEvent):
    """The last member has gone."""

    generation_id: int


@event("remove", "removed", level=Level.INFO)
class MemberRemoved(GroupEvent):
    """A member is not one any longer."""

    reason: RemovalReason
    member_id: str


@event("on_disconnected", "expected")
class MemberDisconnected(GroupEvent):
    """A member's connection has ended, and its client is expected to connect again."""

    reason: ClassVar = "its connection ended"
    member_id: str
    within_ms: int


@event("assign", "assigned")
class TargetAssigned(GroupEvent):
    """A consumer group has a new target assignment."""

    epoch: int
    assignor: str
    members: int
    changed: int
    """Members whose target is another one than before."""

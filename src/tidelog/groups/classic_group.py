"""A classic group with members: what they are doing at the moment.

    Empty ──join──> PreparingRebalance ──all joined──> CompletingRebalance ──leader's──> Stable
      ^                    ^  │                               │   assignment               │
      └────no one left─────┼──┘<──────────────────────────────┴──join, leave, expiry───────┘

A *generation* is a set of members that have agreed on a protocol. Each rebalance begins a new one.
The group elects one of its clients as its leader, which assigns the partitions; the coordinator
carries the assignment to the others, and does not look into it.

This state is soft: a new coordinator starts from the last group record (`records.GroupValue`),
and members that were in the middle of something are asked to begin again. An object of this class
exists while the group has members or member ids that were given out.

Source: KIP-62, KIP-134, KIP-345, KIP-394, KIP-429.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tidelog.errors import ErrorCode
from tidelog.groups.group_state import GroupState
from tidelog.groups.messages import (
    NO_MEMBER,
    GroupProtocol,
    JoinedMember,
    JoinGroupResult,
    SyncGroupResult,
)
from tidelog.groups.records import GroupValue, MemberValue
from tidelog.rsm.coordinator import ReplyTo
from tidelog.wire.consumer_protocol import CONSUMERS, topics_of


@dataclass(slots=True, eq=False, kw_only=True)
class Member:
    """One member of a group."""

    member_id: str
    # Static members have one, and keep their place when their process is replaced (KIP-345).
    group_instance_id: str | None
    client_id: str
    client_host: str
    # Silence after which it is taken for dead.
    session_timeout_ms: int
    # How long a rebalance waits for it.
    rebalance_timeout_ms: int
    # What it supports, the preferred one first; never empty.
    protocols: tuple[GroupProtocol, ...]
    # What the leader assigned to it in this generation.
    assignment: bytes = b""
    # Whether it has not been part of any generation yet.
    is_new: bool = True
    # The JoinGroup that waits for the next generation.
    join_reply: ReplyTo | None = None
    # The SyncGroup that waits for the assignment.
    sync_reply: ReplyTo | None = None
    # Whether it has asked for the assignment of this generation.
    has_synced: bool = True

    def metadata(self, protocol_name: str | None) -> bytes:
        """What it says about itself for this protocol."""
        return next((each.metadata for each in self.protocols if each.name == protocol_name), b"")


@dataclass(slots=True, eq=False)
class ClassicGroup:
    """One group."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    # Grows with each rebalance that ends; never falls.
    generation_id: int = 0
    # `consumer` for consumers, `connect` for Connect; fixed while there are members.
    protocol_type: str | None = None
    # What the generation agreed on; `None` without one.
    protocol_name: str | None = None
    # What its members read; `None` when that is not known: they may read anything.
    topics: frozenset[str] | None = None
    # The member that assigns; always one of the members, or `None`.
    leader_id: str | None = None
    # By member id, in the order in which they came.
    members: dict[str, Member] = field(default_factory=dict)
    # Of each static member the member id, by instance id.
    static_members: dict[str, str] = field(default_factory=dict)
    # Member ids that were given out and have not come back with a join.
    pending: dict[str, None] = field(default_factory=dict)
    # Whether the rebalance under way began with an empty group, and waits for more members.
    is_initial: bool = False
    # By how much its wait may still grow.
    initial_left_ms: int = 0
    # Whether a member came during the last part of that wait.
    has_newcomer: bool = False

    # Members ------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether all that is known of the group is in the log."""
        return not self.members and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of all members."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    @property
    def joined(self) -> Iterator[Member]:
        """The members that wait for the next generation."""
        return (each for each in self.members.values() if each.join_reply is not None)

    @property
    def has_all_joined(self) -> bool:
        """Whether a rebalance has nothing to wait for."""
        return not self.pending and all(
            each.join_reply is not None for each in self.members.values()
        )

    def add(self, member: Member) -> None:
        """A new member."""
        assert member.member_id not in self.members, f"{member.member_id} is a member already"
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id

    def remove(self, member: Member) -> None:
        """The member is gone; another one leads, if it led."""
        del self.members[member.member_id]
        if member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        if self.leader_id == member.member_id:
            self.leader_id = next((each for each in self.members), None)

    def replace(self, old: Member, member_id: str) -> None:
        """Another process is the static member now: it has another id and the same place."""
        assert old.group_instance_id is not None, f"{old.member_id} is not static"
        led = self.leader_id == old.member_id
        del self.members[old.member_id]
        old.member_id = member_id
        self.members[member_id] = old
        self.static_members[old.group_instance_id] = member_id
        if led:
            self.leader_id = member_id

    def fault_of(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """What stands against a request of this member."""
        if group_instance_id is not None:
            known = self.static_members.get(group_instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def fault_in_generation(
        self, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        """What stands against a request of this member that names its generation."""
        code = self.fault_of(member_id, group_instance_id)
        if code is ErrorCode.NONE and generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return code

    # Protocols ----------------------------------------------------------------------------

    @property
    def common_protocols(self) -> set[str]:
        """What all members support."""
        sets = [{each.name for each in member.protocols} for member in self.members.values()]
        return set.intersection(*sets) if sets else set()

    def supports(self, protocol_type: str, protocols: tuple[GroupProtocol, ...]) -> bool:
        """Whether a member with these protocols fits in."""
        if not protocols or not protocol_type:
            return False
        if not self.members:
            return True
        return self.protocol_type == protocol_type and not self.common_protocols.isdisjoint(
            each.name for each in protocols
        )

    def vote(self) -> str:
        """The protocol with most votes; each member votes for the first one that all support."""
        common = self.common_protocols
        votes = Counter(
            next(each.name for each in member.protocols if each.name in common)
            for member in self.members.values()
        )
        return max(votes, key=lambda name: votes[name])

    def choose(self, protocol_name: str | None) -> None:
        """The members have agreed on a protocol, or there are none."""
        self.protocol_name = protocol_name
        said = (each.metadata(protocol_name) for each in self.members.values())
        self.topics = topics_of(said) if self.protocol_type == CONSUMERS else None

    def elect_leader(self) -> bool:
        """Makes sure that the leader has joined; false when no member has."""
        led = self.members.get(self.leader_id or NO_MEMBER)
        if led is not None and led.join_reply is not None:
            return True
        first = next(self.joined, None)
        if first is None:
            return False
        self.leader_id = first.member_id
        return True

    # Answers ------------------------------------------------------------------------------

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """The members as the leader sees them."""
        return tuple(
            JoinedMember(each.member_id, each.group_instance_id, each.metadata(self.protocol_name))
            for each in self.members.values()
        )

    def generation_of(self, member: Member) -> JoinGroupResult:
        """The generation as a member gets to know it."""
        leads = member.member_id == self.leader_id
        return JoinGroupResult(
            ErrorCode.NONE,
            member.member_id,
            self.generation_id,
            self.protocol_type,
            self.protocol_name,
            self.leader_id or NO_MEMBER,
            members=self.joined_members() if leads else (),
        )

    def assignment_of(self, member: Member) -> SyncGroupResult:
        """What a member of a stable group is assigned."""
        return SyncGroupResult(
            ErrorCode.NONE, self.protocol_type, self.protocol_name, member.assignment
        )

    # Records ------------------------------------------------------------------------------

    def value(self, assignments: dict[str, bytes], wall_ms: int) -> GroupValue:
        """The group as a record, with these assignments."""
        members = tuple(
            MemberValue(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                each.rebalance_timeout_ms,
                each.session_timeout_ms,
                each.metadata(self.protocol_name),
                assignments.get(each.member_id, b""),
            )
            for each in self.members.values()
        )
        return GroupValue(
            self.protocol_type or "",
            self.generation_id,
            self.protocol_name,
            self.leader_id,
            wall_ms,
            members,
        )

    @classmethod
    def of(cls, group_id: str, value: GroupValue | None) -> "ClassicGroup":
        """The group that the log has."""
        if value is None:
            return cls(group_id)
        group = cls(
            group_id,
            GroupState.STABLE if value.members else GroupState.EMPTY,
            value.generation_id,
            value.protocol_type or None,
            leader_id=value.leader_id,
        )
        for each in value.members:
            group.add(
                Member(
                    member_id=each.member_id,
                    group_instance_id=each.group_instance_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    session_timeout_ms=each.session_timeout_ms,
                    rebalance_timeout_ms=each.rebalance_timeout_ms,
                    protocols=(GroupProtocol(value.protocol_name or "", each.subscription),),
                    assignment=each.assignment,
                    is_new=False,
                )
            )
        group.choose(value.protocol_name)
        return group

    def check(self) -> None:
        """Asserts what must hold between two events."""
        name, state = self.group_id, self.state
        assert state is not GroupState.EMPTY or not self.members, f"{name} is {state}"
        assert self.members or state in (GroupState.EMPTY, GroupState.PREPARING), (
            f"{name} is {state} without members"
        )
        assert self.leader_id is None or self.leader_id in self.members, f"{name}: no such leader"
        statics = {
            each.group_instance_id: each.member_id
            for each in self.members.values()
            if each.group_instance_id is not None
        }
        assert statics == self.static_members, f"{name}: {statics} != {self.static_members}"
        for member in self.members.values():
            assert member.join_reply is None or state is GroupState.PREPARING, (
                f"OneAnswer: {member.member_id} of {name} waits for a generation, {state}"
            )
            assert member.sync_reply is None or state is GroupState.COMPLETING, (
                f"OneAnswer: {member.member_id} of {name} waits for an assignment, {state}"
            )

"""A consumer group (KIP-848) as its records say: members, what they shall have, what they have.

Epochs and records are those of `epoch_group.py`. Members go to their target one by one
(`reconciliation.py`): no member waits for the slowest one unless it is to get what that one still
has.

Invariant
- SingleOwner: no partition is with two members, to use it or to give it back.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from tidelog.groups.consumer_records import (
    ClassicMember,
    ConsumerRecord,
    Current,
    IdPartition,
    Kind,
    MemberState,
    ResolvedRegex,
    Subscription,
)
from tidelog.groups.epoch_group import EpochGroup
from tidelog.groups.group_state import GroupState

LEFT_FOR_A_WHILE: Final = -2
"""The epoch of a static member that said it would come back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup(EpochGroup[ConsumerRecord, Current]):
    """One group."""

    record_of: ClassVar = ConsumerRecord
    single: ClassVar = {Kind.TARGET_EPOCH: "target_epoch", Kind.EPOCH: "epoch"}
    named: ClassVar = {
        Kind.CURRENT: "currents",
        Kind.TARGET: "targets",
        Kind.SUBSCRIPTION: "subscriptions",
        Kind.REGEX: "regexes",
    }
    unassigned: ClassVar = 0

    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)
    """The members, by id."""
    regexes: Mapping[str, ResolvedRegex] = field(default_factory=dict)
    """Those that members are subscribed by."""

    @property
    def state(self) -> GroupState:
        """In the words of ConsumerGroupDescribe."""
        if not self.subscriptions:
            return GroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        for member_id in self.subscriptions:
            current = self.current(member_id)
            if current.state is not MemberState.STABLE or current.epoch != self.assignment_epoch:
                return GroupState.RECONCILING
        return GroupState.STABLE

    def current(self, member_id: str) -> Current:
        """What a member has."""
        return self.currents.get(member_id) or Current()

    def static_member(self, instance_id: str) -> str | None:
        """The member id of a static member."""
        for member_id, each in self.subscriptions.items():
            if each.instance_id == instance_id:
                return member_id
        return None

    def classic_members(self) -> Iterator[ClassicMember]:
        """Those that speak the classic protocol."""
        for each in self.subscriptions.values():
            if each.classic is not None:
                yield each.classic

    def is_classic_without(self, leaving: Collection[str]) -> bool:
        """Whether there are members besides these, and all speak the classic protocol."""
        staying = [name for name in self.subscriptions if name not in leaving]
        return bool(staying) and all(
            self.subscriptions[name].classic is not None for name in staying
        )

    def owners(self) -> dict[IdPartition, str]:
        """Who has each partition."""
        return {
            partition: member_id
            for member_id, current in self.currents.items()
            for held in (current.assigned, current.revoking)
            for partition in held
        }

    def topics_of(self, subscription: Subscription) -> set[str]:
        """The names that a member is subscribed to, whether there are such topics or not."""
        resolved = self.regexes.get(subscription.regex or "")
        return {*subscription.topic_names, *(() if resolved is None else resolved.topics)}

    def topics(self) -> set[str]:
        """The names that any member is subscribed to."""
        return set().union(*(self.topics_of(each) for each in self.subscriptions.values()))

    def assignor(self, default: str) -> str:
        """The one that most members prefer; of two, as in Kafka, the last by name: `uniform`."""
        votes: dict[str, int] = {}
        for each in self.subscriptions.values():
            if each.assignor is not None:
                votes[each.assignor] = votes.get(each.assignor, 0) + 1
        return max(votes, key=lambda name: (votes[name], name), default=default)

    def check(self, group_id: str) -> None:
        """Asserts the invariants."""
        held = sum(len(it.assigned) + len(it.revoking) for it in self.currents.values())
        assert held == len(self.owners()), (
            f"SingleOwner: two members of {group_id} share partitions"
        )
        meant = sum(map(len, self.targets.values()))
        assert meant == len(set().union(*self.targets.values())), (
            f"TargetIsDisjoint: a partition is meant for two members of {group_id}"
        )
        EpochGroup.check(self, group_id)


EMPTY: Final = ConsumerGroup()

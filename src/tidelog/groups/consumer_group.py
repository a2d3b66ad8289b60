"""A consumer group (KIP-848) as its records say: members, what they shall have, what they have.

Unlike a classic group, whose members agree among themselves, a consumer group is decided by its
coordinator, and all of it is in the log. There are three epochs:

    group epoch        grows when members, subscriptions or topics change
    assignment epoch   the group epoch that the target assignment was made for
    member epochs      the assignment epoch that each member has come to

Members go to their target one by one (`reconciliation.py`): no member waits for the slowest one
unless it is to get what that one still has.

An object of this class never changes; `replayed` makes the next one. Order of records and missing
ones do not matter to it, because a compacted log keeps each key's last record only.

Invariant
- SingleOwner: no partition is with two members, to use it or to give it back.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from tidelog.groups.consumer_records import (
    ClassicMember,
    ConsumerRecord,
    Current,
    GroupEpoch,
    IdPartition,
    Kind,
    MemberState,
    ResolvedRegex,
    Subscription,
    Target,
    TargetEpoch,
)
from tidelog.groups.group_state import GroupState
from tidelog.groups.invariants import check_epochs

LEFT_FOR_A_WHILE: Final = -2
"""The epoch of a static member that said it would come back."""


@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """One group."""

    epoch: GroupEpoch | None = None
    target_epoch: TargetEpoch | None = None
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)
    """The members, by id."""
    targets: Mapping[str, Target] = field(default_factory=dict)
    currents: Mapping[str, Current] = field(default_factory=dict)
    regexes: Mapping[str, ResolvedRegex] = field(default_factory=dict)
    """Those that members are subscribed by."""

    @property
    def group_epoch(self) -> int:
        """1 before the first one, so that the first is 2, as in Kafka since 4.1."""
        return 1 if self.epoch is None else self.epoch.epoch

    @property
    def assignment_epoch(self) -> int:
        """0 before the first one."""
        return 0 if self.target_epoch is None else self.target_epoch.epoch

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

    def target(self, member_id: str) -> Target:
        """What a member shall have."""
        return self.targets.get(member_id, ())

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
        """The one that most members prefer; of two, the first by name."""
        votes: dict[str, int] = {}
        for each in self.subscriptions.values():
            if each.assignor is not None:
                votes[each.assignor] = votes.get(each.assignor, 0) + 1
        return min(votes, key=lambda name: (-votes[name], name), default=default)

    def tombstones(self, group_id: str) -> list[ConsumerRecord]:
        """What removes the group from the log."""
        found = [ConsumerRecord(Kind.CURRENT, group_id, name, None) for name in self.currents]
        found += [ConsumerRecord(Kind.TARGET, group_id, name, None) for name in self.targets]
        found += [
            ConsumerRecord(Kind.SUBSCRIPTION, group_id, name, None) for name in self.subscriptions
        ]
        found += [ConsumerRecord(Kind.REGEX, group_id, name, None) for name in self.regexes]
        if self.target_epoch is not None:
            found.append(ConsumerRecord(Kind.TARGET_EPOCH, group_id, "", None))
        if self.epoch is not None:
            found.append(ConsumerRecord(Kind.EPOCH, group_id, "", None))
        return found

    def check(self, group_id: str) -> None:
        """Asserts the invariants."""
        held = sum(len(it.assigned) + len(it.revoking) for it in self.currents.values())
        assert held == len(self.owners()), (
            f"SingleOwner: two members of {group_id} share partitions"
        )
        epochs = {member_id: each.epoch for member_id, each in self.currents.items()}
        check_epochs(group_id, epochs, self.assignment_epoch, self.group_epoch)


EMPTY: Final = ConsumerGroup()


def replayed(
    group: ConsumerGroup | None, records: Iterable[ConsumerRecord]
) -> ConsumerGroup | None:
    """The group after records of its own; `None` when nothing is left of it."""
    before = group or EMPTY
    changed: dict[Kind, dict[str, Any]] = {}
    epoch, target_epoch = before.epoch, before.target_epoch
    for kind, _, name, value in records:
        if kind is Kind.EPOCH:
            epoch = cast("GroupEpoch | None", value)
        elif kind is Kind.TARGET_EPOCH:
            target_epoch = cast("TargetEpoch | None", value)
        else:
            values = changed.get(kind)
            if values is None:
                values = changed[kind] = dict(_values(before, kind))
            if value is None:
                values.pop(name, None)
            else:
                values[name] = value
    after = ConsumerGroup(
        epoch, target_epoch, *(changed.get(kind, _values(before, kind)) for kind in _BY_NAME)
    )
    return None if after == EMPTY else after


_BY_NAME: Final = (Kind.SUBSCRIPTION, Kind.TARGET, Kind.CURRENT, Kind.REGEX)


def _values(group: ConsumerGroup, kind: Kind) -> Mapping[str, Any]:
    """What a group has by name, in the order of its fields."""
    fields = group.subscriptions, group.targets, group.currents, group.regexes
    return fields[_BY_NAME.index(kind)]

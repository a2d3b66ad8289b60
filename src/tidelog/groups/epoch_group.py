"""What consumer groups (KIP-848) and share groups (KIP-932) have in common, as their records say.

Unlike a classic group, whose members agree among themselves, such a group is decided by its
coordinator, and all of it is in the log. There are three epochs:

    group epoch        grows when members, subscriptions or topics change
    assignment epoch   the group epoch that the target assignment was made for
    member epochs      the assignment epoch that each member has come to

An object of these classes never changes; `after` makes the next one. Order of records and missing
ones do not matter to it, because a compacted log keeps each key's last record only.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Self, TypeVar

from tidelog.groups.consumer_records import Current, GroupEpoch, Target, TargetEpoch
from tidelog.groups.invariants import check_epochs
from tidelog.groups.share_records import ShareCurrent

RecordT = TypeVar("RecordT", bound=tuple[Any, ...])
"""A record of a group: its kind, the group, a name within it, and a value or none."""
CurrentT = TypeVar("CurrentT", Current, ShareCurrent)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochGroup(Generic[RecordT, CurrentT]):
    """One group."""

    record_of: ClassVar[Callable[..., Any]]
    """Makes a record of its log."""
    single: ClassVar[Mapping[Any, str]]
    """The fields that are one record each, by its kind."""
    named: ClassVar[Mapping[Any, str]]
    """The fields that have a record for each name."""
    unassigned: ClassVar[int]
    """The assignment epoch before the first one."""

    epoch: GroupEpoch | None = None
    target_epoch: TargetEpoch | None = None
    targets: Mapping[str, Target] = field(default_factory=dict)
    """What members shall have, by member."""
    currents: Mapping[str, CurrentT] = field(default_factory=dict)
    """What members have."""

    @property
    def group_epoch(self) -> int:
        """1 before the first one, so that the first is 2, as in Kafka since 4.1."""
        return 1 if self.epoch is None else self.epoch.epoch

    @property
    def assignment_epoch(self) -> int:
        """Of the target assignment."""
        return self.unassigned if self.target_epoch is None else self.target_epoch.epoch

    def target(self, member_id: str) -> Target:
        """What a member shall have."""
        return self.targets.get(member_id, ())

    def after(self, records: Iterable[RecordT]) -> Self | None:
        """The group after records of its own; `None` when nothing is left of it."""
        changed: dict[str, Any] = {}
        for kind, _, name, value in records:
            if kind in self.single:
                changed[self.single[kind]] = value
                continue
            array = self.named[kind]
            if array not in changed:
                changed[array] = dict(getattr(self, array))
            if value is None:
                changed[array].pop(name, None)
            else:
                changed[array][name] = value
        group = replace(self, **changed)
        return None if group == type(self)() else group

    def tombstones(self, group_id: str) -> list[RecordT]:
        """What removes the group from the log."""
        keys = [(kind, name) for kind, array in self.named.items() for name in getattr(self, array)]
        keys += [(kind, "") for kind, one in self.single.items() if getattr(self, one) is not None]
        return [self.record_of(kind, group_id, name, None) for kind, name in keys]

    def check(self, group_id: str) -> None:
        """Asserts what holds between the epochs."""
        epochs = {member_id: each.epoch for member_id, each in self.currents.items()}
        check_epochs(group_id, epochs, self.assignment_epoch, self.group_epoch)

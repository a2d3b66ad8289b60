"""A share group (KIP-932) as its records say: members, what they shall have, what they have.

The epochs are those of a consumer group (`consumer_group.py`). Partitions are shared: several
members may have one at a time, so none of them waits for another, and a member has its target as
soon as it comes. A partition is assigned only when its state is initialised at the share
coordinator (`ShareStates`); otherwise its leader would have nothing to begin with.

An object of this class never changes; `replayed` makes the next one. Order of records and missing
ones do not matter to it, because a compacted log keeps each key's last record only.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tidelog.groups.consumer_records import GroupEpoch, IdPartition, Target, TargetEpoch
from tidelog.groups.group_state import GroupState
from tidelog.groups.invariants import check_epochs
from tidelog.groups.share_records import (
    ShareCurrent,
    ShareGroupRecord,
    ShareKind,
    ShareMember,
    ShareStates,
)
from tidelog.model import TopicId


@dataclass(frozen=True, slots=True)
class ShareGroup:
    """One group."""

    epoch: GroupEpoch | None = None
    target_epoch: TargetEpoch | None = None
    members: Mapping[str, ShareMember] = field(default_factory=dict)
    targets: Mapping[str, Target] = field(default_factory=dict)
    currents: Mapping[str, ShareCurrent] = field(default_factory=dict)
    states: ShareStates | None = None

    @property
    def group_epoch(self) -> int:
        """1 before the first one, so that the first is 2, as in Kafka since 4.1."""
        return 1 if self.epoch is None else self.epoch.epoch

    @property
    def assignment_epoch(self) -> int:
        """Likewise."""
        return 1 if self.target_epoch is None else self.target_epoch.epoch

    @property
    def state(self) -> GroupState:
        """In the words of ShareGroupDescribe."""
        return GroupState.STABLE if self.members else GroupState.EMPTY

    @property
    def known_states(self) -> ShareStates:
        """Those of a group without a record are none."""
        return self.states or ShareStates()

    def current(self, member_id: str) -> ShareCurrent:
        """What a member has."""
        return self.currents.get(member_id) or ShareCurrent()

    def target(self, member_id: str) -> Target:
        """What a member shall have."""
        return self.targets.get(member_id, ())

    def topics(self) -> set[str]:
        """The names that any member is subscribed to."""
        return {name for each in self.members.values() for name in each.topic_names}

    def assignable(self) -> dict[TopicId, frozenset[int]]:
        """Of each topic the partitions that members may have."""
        initialized = self.known_states.initialized
        return {topic_id: each.partitions for topic_id, each in initialized.items()}

    def is_unassigned(self) -> bool:
        """Whether the target lacks, or has too many, partitions of a topic with initialised
        ones."""
        given: set[IdPartition] = set().union(*self.targets.values())
        names = self.topics()
        wanted = {
            IdPartition(topic_id, number)
            for topic_id, each in self.known_states.initialized.items()
            if each.name in names
            for number in each.partitions
        }
        topics = {each.topic_id for each in wanted}
        return bool(self.members) and wanted != {each for each in given if each.topic_id in topics}

    def tombstones(self, group_id: str) -> list[ShareGroupRecord]:
        """What removes the group from the log."""
        found = [
            ShareGroupRecord(kind, group_id, member_id, None)
            for kind, name in _BY_MEMBER.items()
            for member_id in getattr(self, name)
        ]
        found += [
            ShareGroupRecord(kind, group_id, "", None)
            for kind, name in _OF_GROUP.items()
            if getattr(self, name) is not None
        ]
        return found

    def check(self, group_id: str) -> None:
        """Asserts what holds between the epochs."""
        epochs = {member_id: each.epoch for member_id, each in self.currents.items()}
        check_epochs(group_id, epochs, self.assignment_epoch, self.group_epoch)


EMPTY: Final = ShareGroup()
_BY_MEMBER: Final = {
    ShareKind.CURRENT: "currents",
    ShareKind.TARGET: "targets",
    ShareKind.MEMBER: "members",
}
_OF_GROUP: Final = {
    ShareKind.TARGET_EPOCH: "target_epoch",
    ShareKind.STATES: "states",
    ShareKind.EPOCH: "epoch",
}


def replayed(group: ShareGroup | None, records: Iterable[ShareGroupRecord]) -> ShareGroup | None:
    """The group after records of its own; `None` when nothing is left of it."""
    before = group or EMPTY
    changed: dict[str, Any] = {}
    for kind, _, member_id, value in records:
        name = _OF_GROUP.get(kind)
        if name is not None:
            changed[name] = value
            continue
        name = _BY_MEMBER[kind]
        values = changed.setdefault(name, dict(getattr(before, name)))
        if value is None:
            values.pop(member_id, None)
        else:
            values[member_id] = value
    after = replace(before, **changed)
    return None if after == EMPTY else after

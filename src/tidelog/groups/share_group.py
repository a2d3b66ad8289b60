"""A share group (KIP-932) as its records say: members, what they shall have, what they have.

Epochs and records are those of `epoch_group.py`. Partitions are shared: several members may have
one at a time, so none of them waits for another, and a member has its target as soon as it comes. A
partition is assigned only when its state is initialised at the share coordinator (`ShareStates`);
otherwise its leader would have nothing to begin with.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from tidelog.groups.consumer_records import IdPartition
from tidelog.groups.epoch_group import EpochGroup
from tidelog.groups.group_state import GroupState
from tidelog.groups.share_records import (
    ShareCurrent,
    ShareGroupRecord,
    ShareKind,
    ShareMember,
    ShareStates,
)
from tidelog.model import TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroup(EpochGroup[ShareGroupRecord, ShareCurrent]):
    """One group."""

    record_of: ClassVar = ShareGroupRecord
    single: ClassVar = {
        ShareKind.TARGET_EPOCH: "target_epoch",
        ShareKind.STATES: "states",
        ShareKind.EPOCH: "epoch",
    }
    named: ClassVar = {
        ShareKind.CURRENT: "currents",
        ShareKind.TARGET: "targets",
        ShareKind.MEMBER: "members",
    }
    unassigned: ClassVar = 1

    members: Mapping[str, ShareMember] = field(default_factory=dict)
    states: ShareStates | None = None

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


EMPTY: Final = ShareGroup()

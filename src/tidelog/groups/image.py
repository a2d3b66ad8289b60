"""What a coordinator's log says: of each group the committed offsets and its last records.

This is the state that the kernel replays (`rsm/kernel.py`): everything that a new coordinator
takes over. It is immutable; a group that did not change is shared between two images. What the
members of a classic group are doing at the moment is not part of it (`classic_group.py`).

A group exists here while it has an offset or a record.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tidelog.groups.consumer_group import ConsumerGroup, replayed
from tidelog.groups.consumer_records import ConsumerRecord
from tidelog.groups.records import (
    CommittedOffset,
    GroupRecord,
    GroupsRecord,
    GroupValue,
    OffsetRecord,
    RawRecord,
    decode,
    encode,
)
from tidelog.model import TopicPartition
from tidelog.rsm.shared_map import SharedMap


@dataclass(frozen=True, slots=True)
class GroupImage:
    """One group."""

    offsets: Mapping[TopicPartition, CommittedOffset] = field(default_factory=dict)
    value: GroupValue | None = None
    """A classic group; `None` for a group that only commits, without members."""
    consumer: ConsumerGroup | None = None
    """A consumer group (KIP-848)."""


_NO_GROUP: Final = GroupImage()


@dataclass(frozen=True, slots=True)
class GroupsImage:
    """All groups of one partition of `__consumer_offsets`."""

    groups: SharedMap[GroupImage] = field(default_factory=SharedMap)

    def get(self, group_id: str) -> GroupImage | None:
        """One group, if it exists."""
        return self.groups.get(group_id)


class GroupsMachine:
    """The log of a coordinator as the kernel's state machine."""

    def encode(self, record: GroupsRecord) -> RawRecord:
        """Key and value."""
        return encode(record)

    def decode(self, raw: RawRecord) -> GroupsRecord:
        """The inverse of `encode`."""
        return decode(raw)

    def replay(
        self, state: GroupsImage, records: Sequence[GroupsRecord], last_offset: int, epoch: int
    ) -> GroupsImage:
        """The image after a batch."""
        offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        values: dict[str, GroupValue | None] = {}
        consumers: dict[str, list[ConsumerRecord]] = {}
        for record in records:
            if isinstance(record, OffsetRecord):
                group_id, topic_partition, value = record
                committed = offsets.get(group_id)
                if committed is None:
                    found = state.get(group_id)
                    committed = offsets[group_id] = {} if found is None else dict(found.offsets)
                if value is None:
                    committed.pop(topic_partition, None)
                else:
                    committed[topic_partition] = value
            elif isinstance(record, GroupRecord):
                values[record.group_id] = record.value
            elif isinstance(record, ConsumerRecord):
                consumers.setdefault(record.group_id, []).append(record)
        changes: dict[str, GroupImage | None] = {}
        for group_id in dict.fromkeys((*offsets, *values, *consumers)):
            before = state.get(group_id) or _NO_GROUP
            after = GroupImage(
                offsets.get(group_id, before.offsets),
                values.get(group_id, before.value),
                replayed(before.consumer, consumers[group_id])
                if group_id in consumers
                else before.consumer,
            )
            is_left = after.offsets or after.value is not None or after.consumer is not None
            changes[group_id] = after if is_left else None
        return GroupsImage(state.groups.changed(changes)) if changes else state

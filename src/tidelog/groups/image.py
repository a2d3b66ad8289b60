"""What a coordinator's log says: of each group the committed offsets and its last records.

This is the state that the kernel replays (`rsm/kernel.py`): everything that a new coordinator
takes over. It is immutable; a group that did not change is shared between two images. What the
members of a classic group are doing at the moment is not part of it (`classic_group.py`).

Offsets that wait for the end of a transaction are part of it (`transactions.py`).

A group exists here while it has an offset, be it one that waits, or a record.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tidelog.groups import consumer_group, share_group
from tidelog.groups.consumer_group import ConsumerGroup
from tidelog.groups.consumer_records import ConsumerRecord
from tidelog.groups.records import (
    CommittedOffset,
    GroupRecord,
    GroupsRecord,
    GroupValue,
    OffsetRecord,
    OtherRecord,
    decode,
    encode,
)
from tidelog.groups.share_group import ShareGroup
from tidelog.groups.share_records import ShareGroupRecord
from tidelog.groups.transactions import (
    NOTHING_WAITS,
    PendingOffset,
    Waiting,
    WaitingCommit,
    superseded,
    waits_for,
    without,
)
from tidelog.model import TopicPartition
from tidelog.rsm.log_records import InTransaction, LogRecord, TransactionEnd
from tidelog.rsm.shared_map import SharedMap

GroupsLogRecord = GroupsRecord | PendingOffset | TransactionEnd
"""All that is in the log of a coordinator."""


@dataclass(frozen=True, slots=True)
class GroupImage:
    """One group."""

    offsets: Mapping[TopicPartition, CommittedOffset] = field(default_factory=dict)
    value: GroupValue | None = None
    """A classic group; `None` for a group that only commits, without members."""
    consumer: ConsumerGroup | None = None
    """A consumer group (KIP-848)."""
    waiting: Waiting = field(default_factory=lambda: NOTHING_WAITS)
    """Offsets that open transactions have committed."""
    shares: ShareGroup | None = None
    """A share group (KIP-932)."""

    def knows(self, topic_partition: TopicPartition) -> bool:
        """Whether there is an offset, be it one that waits."""
        return topic_partition in self.offsets or waits_for(self.waiting, topic_partition)

    @property
    def all_offsets(self) -> Iterable[TopicPartition]:
        """The partitions that have an offset, be it one that waits; each of them once."""
        waiting = [each for commits in self.waiting.values() for each in commits]
        return dict.fromkeys((*self.offsets, *waiting))


_NO_GROUP: Final = GroupImage()
_Made = dict[str, dict[TopicPartition, CommittedOffset]]


@dataclass(frozen=True, slots=True)
class GroupsImage:
    """All groups of one partition of `__consumer_offsets`."""

    groups: SharedMap[GroupImage] = field(default_factory=SharedMap)
    open: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """By producer id: the groups that wait for the end of its transaction."""

    def get(self, group_id: str) -> GroupImage | None:
        """One group, if it exists."""
        return self.groups.get(group_id)

    @property
    def only_last_counts(self) -> bool:
        """Whether of the next plain records of one key the last one is enough, as a cleaner leaves
        it. While a transaction is open none may be missing: an offset that is deleted does not wait
        for the transaction any more, and one that is committed waits on."""
        return not self.open


class GroupsMachine:
    """The log of a coordinator as the kernel's state machine.

    Until everything is loaded only the next batch looks at an image. So the offsets of a
    group are copied once then, and not with each batch that has one of them.
    """

    def __init__(self) -> None:
        # By group: the offsets that a load has made; `None` once it has ended.
        self._loading: _Made | None = {}

    def end_loading(self) -> None:
        """From now on an image never changes."""
        self._loading = None

    def encode(self, record: GroupsLogRecord) -> LogRecord:
        """As the log has it."""
        if isinstance(record, PendingOffset):
            return InTransaction(encode(record.offset), record.producer_id, record.producer_epoch)
        return record if isinstance(record, TransactionEnd) else encode(record)

    def decode(self, raw: LogRecord) -> GroupsLogRecord:
        """The inverse of `encode`."""
        if isinstance(raw, TransactionEnd):
            return raw
        if not isinstance(raw, InTransaction):
            return decode(raw)
        offset = decode(raw.raw)
        if isinstance(offset, OffsetRecord):
            return PendingOffset(raw.producer_id, raw.producer_epoch, offset)
        return OtherRecord(raw.raw)

    def replay(
        self, state: GroupsImage, records: Sequence[GroupsLogRecord], last_offset: int, epoch: int
    ) -> GroupsImage:
        """The image after a batch."""
        changes = _Changes(state, self._loading)
        for index, record in enumerate(records):
            if isinstance(record, OffsetRecord):
                changes.commit(record)
            elif isinstance(record, GroupRecord):
                changes.values[record.group_id] = record.value
            elif isinstance(record, ConsumerRecord):
                changes.consumers.setdefault(record.group_id, []).append(record)
            elif isinstance(record, ShareGroupRecord):
                changes.shares.setdefault(record.group_id, []).append(record)
            elif isinstance(record, PendingOffset):
                changes.hold(record, (last_offset, index))
            elif isinstance(record, TransactionEnd):
                changes.end(record)
        return changes.result()


class _Changes:
    """What a batch changes, by group."""

    __slots__ = (
        "_found",
        "_loading",
        "_offsets",
        "_open",
        "_plain",
        "_plain_group",
        "_state",
        "_waiting",
        "consumers",
        "shares",
        "values",
    )

    def __init__(self, state: GroupsImage, loading: _Made | None) -> None:
        self._state = state
        # Offsets that may be changed where they are; `None` when none may.
        self._loading = loading
        # Groups that were looked for.
        self._found: dict[str, GroupImage | None] = {}
        # Copies of what is changed.
        self._offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._waiting: dict[str, Waiting] = {}
        self._open: dict[int, frozenset[str]] | None = None
        # The offsets of the group that the last commit was for, if nothing waits in it: most
        # commits stand beside others of their group.
        self._plain_group: str | None = None
        self._plain: dict[TopicPartition, CommittedOffset] = {}
        # Records that were not applied yet.
        self.consumers: dict[str, list[ConsumerRecord]] = {}
        self.shares: dict[str, list[ShareGroupRecord]] = {}
        self.values: dict[str, GroupValue | None] = {}

    def _before(self, group_id: str) -> GroupImage | None:
        try:
            return self._found[group_id]
        except KeyError:
            found = self._found[group_id] = self._state.get(group_id)
            return found

    def _offsets_of(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        offsets = self._offsets.get(group_id)
        if offsets is None:
            found = self._before(group_id)
            made = None if self._loading is None else self._loading.get(group_id)
            if made is not None and found is not None and found.offsets is made:
                offsets = made
            else:
                offsets = {} if found is None else dict(found.offsets)
            self._offsets[group_id] = offsets
            if self._loading is not None:
                self._loading[group_id] = offsets
        return offsets

    def _waiting_in(self, group_id: str) -> Waiting:
        waiting = self._waiting.get(group_id)
        if waiting is None:
            found = self._before(group_id)
            waiting = NOTHING_WAITS if found is None else found.waiting
        return waiting

    def _open_transactions(self) -> dict[int, frozenset[str]]:
        if self._open is None:
            self._open = dict(self._state.open)
        return self._open

    def commit(self, record: OffsetRecord) -> None:
        """An offset comes into force, or goes."""
        group_id, topic_partition, value = record
        if group_id == self._plain_group and value is not None:
            self._plain[topic_partition] = value
            return
        offsets, waiting = self._offsets_of(group_id), self._waiting_in(group_id)
        self._plain_group, self._plain = (None if waiting else group_id), offsets
        if value is None:
            offsets.pop(topic_partition, None)
            left = without(waiting, topic_partition) if waiting else waiting
        else:
            offsets[topic_partition] = value
            left = superseded(waiting, topic_partition, None) if waiting else waiting
        if left is not waiting:
            self._waiting[group_id] = left

    def hold(self, record: PendingOffset, written: tuple[int, int]) -> None:
        """An offset waits for the end of its transaction."""
        producer_id, _, (group_id, topic_partition, value) = record
        if value is None:
            return
        self._plain_group = None
        waiting = self._waiting_in(group_id)
        commits = {**waiting.get(producer_id, {}), topic_partition: WaitingCommit(value, written)}
        self._waiting[group_id] = {**waiting, producer_id: commits}
        groups = self._open_transactions()
        groups[producer_id] = groups.get(producer_id, frozenset()) | {group_id}

    def end(self, record: TransactionEnd) -> None:
        """What waits for a transaction counts, or is dropped."""
        if record.producer_id not in (self._state.open if self._open is None else self._open):
            return
        for group_id in sorted(self._open_transactions().pop(record.producer_id)):
            waiting = dict(self._waiting_in(group_id))
            left: Waiting = waiting
            ended = waiting.pop(record.producer_id, {})
            if record.marker.is_commit:
                offsets = self._offsets_of(group_id)
                for topic_partition, (value, written, is_superseded) in ended.items():
                    if not is_superseded:
                        offsets[topic_partition] = value
                        left = superseded(left, topic_partition, written)
            self._waiting[group_id] = left

    def result(self) -> GroupsImage:
        """The image with all of it."""
        changed: dict[str, GroupImage | None] = {}
        touched = (*self._offsets, *self._waiting, *self.values, *self.consumers, *self.shares)
        for group_id in dict.fromkeys(touched):
            before = self._before(group_id) or _NO_GROUP
            records = self.consumers.get(group_id, ())
            shares = self.shares.get(group_id, ())
            after = GroupImage(
                self._offsets.get(group_id, before.offsets),
                self.values.get(group_id, before.value),
                (before.consumer or consumer_group.EMPTY).after(records)
                if records
                else before.consumer,
                self._waiting.get(group_id, before.waiting),
                (before.shares or share_group.EMPTY).after(shares) if shares else before.shares,
            )
            changed[group_id] = None if after == _NO_GROUP else after
        if not changed and self._open is None:
            return self._state
        open_transactions = self._state.open if self._open is None else self._open
        return GroupsImage(self._state.groups.changed(changed), open_transactions)

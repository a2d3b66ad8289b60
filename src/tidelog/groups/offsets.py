"""Committed offsets: who may commit them, what is answered about them, how they are forgotten.

Only members of the present generation commit for a group that has members, of a consumer group
those that name the epoch in which they have the partition; anyone commits for a
group without (`assign` and tools). That keeps a process that was replaced in the meantime from
moving the offsets of its successor back.

Reading needs no membership. What is read is committed: a commit that may yet be lost with the
leadership is not shown. So a client that has seen an offset never sees an older one, whichever
coordinator it asks (CommittedNeverRegresses); but for a broker that has lost the leadership without
knowing it, which answers from what was committed while it led.

Invariants
- CommittedNeverRegresses: a commit that was answered without an error is what every later answer
  is based on, until another commit, a deletion or its expiry.
- OnlyTheGeneration: a commit with another generation than the present one changes nothing, nor
  one with an epoch from before the member got the partition, or from after the present.

Source: KIP-211, KIP-447, KIP-848, KIP-1251 (commits with a former epoch); Kafka's
OffsetMetadataManager.
"""

from collections.abc import Mapping

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.classic_group import ClassicGroup
from tidelog.groups.consumer_group import ConsumerGroup
from tidelog.groups.consumer_records import IdPartition
from tidelog.groups.env import Env
from tidelog.groups.group_state import GroupState
from tidelog.groups.messages import (
    NO_GENERATION,
    NO_MEMBER,
    CommitInTransaction,
    CommitOffsets,
    CommitOffsetsResult,
    DeleteOffsets,
    DeleteOffsetsResult,
    EndTransaction,
    EndTransactionResult,
    FetchOffsets,
    FetchOffsetsResult,
)
from tidelog.groups.records import CommittedOffset, GroupsRecord, OffsetRecord
from tidelog.groups.transactions import PendingOffset, fault_of, waits_for
from tidelog.model import ZERO_TOPIC_ID, TopicPartition
from tidelog.rsm.coordinator import Refused, ReplyTo
from tidelog.rsm.log_records import TransactionEnd
from tidelog.wire.consumer_protocol import CONSUMERS

_RENEWING = (GroupState.PREPARING, GroupState.STABLE)


class Offsets:
    """Decides everything about committed offsets of one coordinator."""

    __slots__ = ("_env",)

    def __init__(self, env: Env) -> None:
        self._env = env

    @property
    def _limit(self) -> int:
        """Longer metadata is not committed."""
        return self._env.config.offset_metadata_max_bytes

    # Commits ------------------------------------------------------------------------------

    def commit(self, request: CommitOffsets, reply_to: ReplyTo, now: Instant) -> None:
        """Writes them; the answer leaves when they are committed."""
        group = self._env.find(request.group_id)
        consumers = self._env.consumers(request.group_id)
        if consumers is None:
            code = _fault_of(group, request)
        else:
            code = _fault_of_member(consumers, request, self._limit)
        if code is not ErrorCode.NONE:
            self._env.answer(reply_to, Refused(code))
            return
        if group is not None and request.member_id in group.members:
            member = group.members[request.member_id]
            if group.state in _RENEWING and member.join_reply is None:
                self._env.begin_session(group, member, now)
        records, results = self._written(request, now)
        self._env.write(records, results, reply_to)

    def commit_in_transaction(
        self, request: CommitInTransaction, reply_to: ReplyTo, now: Instant
    ) -> None:
        """Writes them as part of the transaction; they count when it commits."""
        _, producer_id, producer_epoch, commit = request
        consumers = self._env.consumers(request.group_id)
        if consumers is None:
            code = fault_of(self._env.find(request.group_id), commit)
        else:
            code = _fault_in_transaction(consumers, commit, self._limit)
        if code is not ErrorCode.NONE:
            self._env.answer(reply_to, Refused(code))
            return
        offsets, results = self._written(commit, now)
        records = [PendingOffset(producer_id, producer_epoch, each) for each in offsets]
        self._env.write(records, results, reply_to)

    def end_transaction(self, request: EndTransaction, reply_to: ReplyTo) -> None:
        """Writes the marker: what waits for it counts, or is dropped."""
        self._env.write([TransactionEnd(*request)], EndTransactionResult(), reply_to)

    def _written(
        self, commit: CommitOffsets, now: Instant
    ) -> tuple[list[OffsetRecord], CommitOffsetsResult]:
        """The records of a commit, and the answer when they are committed."""
        wall_ms, limit = self._env.wall_ms(now), self._limit
        records, results = [], []
        for topic_partition, value in commit.offsets:
            if len(value.metadata) > limit:
                results.append((topic_partition, ErrorCode.OFFSET_METADATA_TOO_LARGE))
                continue
            committed = value._replace(commit_timestamp_ms=wall_ms)
            records.append(OffsetRecord(commit.group_id, topic_partition, committed))
            results.append((topic_partition, ErrorCode.NONE))
        return records, CommitOffsetsResult(tuple(results))

    # Questions ----------------------------------------------------------------------------

    def fetch(self, request: FetchOffsets, reply_to: ReplyTo) -> None:
        """Answers at once, from what is committed."""
        kernel = self._env.kernel
        image, newest = kernel.committed.get(request.group_id), kernel.latest.get(request.group_id)
        if image is not None and image.consumer is not None:
            code = _fault_of_reader(image.consumer, request)
            if code is not ErrorCode.NONE:
                self._env.answer(reply_to, Refused(code))
                return
        offsets = {} if image is None else image.offsets
        if request.partitions is None:
            wanted = tuple(each for each in offsets if self._of_present_topic(offsets, each))
        else:
            wanted = request.partitions
        unstable: set[TopicPartition] = set()
        # What is not committed yet may be in the next moment: it counts here, too.
        for known in (image, newest) if request.require_stable else ():
            if known is not None and known.waiting:
                unstable.update(each for each in wanted if waits_for(known.waiting, each))
        found = tuple(
            (each, None if each in unstable else self._of_present_topic(offsets, each))
            for each in wanted
        )
        self._env.answer(reply_to, FetchOffsetsResult(found, frozenset(unstable)))

    def _of_present_topic(
        self, offsets: Mapping[TopicPartition, CommittedOffset], topic_partition: TopicPartition
    ) -> CommittedOffset | None:
        """The offset of a partition. One of a topic that was deleted, and has a successor of the
        same name, is none: it stays in the log until it is forgotten (`expiry.py`)."""
        found = offsets.get(topic_partition)
        if found is None or found.topic_id == ZERO_TOPIC_ID:
            return found
        present = self._env.topics.id_of(topic_partition.topic)
        return found if present in (None, found.topic_id) else None

    # Deletions ----------------------------------------------------------------------------

    def delete(self, request: DeleteOffsets, reply_to: ReplyTo) -> None:
        """Forgets offsets of topics that no member is subscribed to."""
        group = self._env.find(request.group_id)
        consumers = self._env.consumers(request.group_id)
        if not request.group_id or (group is None and consumers is None):
            code = ErrorCode.GROUP_ID_NOT_FOUND if request.group_id else ErrorCode.INVALID_GROUP_ID
            self._env.answer(reply_to, DeleteOffsetsResult(code))
            return
        if group is not None and group.members and group.protocol_type != CONSUMERS:
            self._env.answer(reply_to, DeleteOffsetsResult(ErrorCode.NON_EMPTY_GROUP))
            return
        subscribed = self._env.topics_read_by(request.group_id)
        image = self._env.kernel.latest.get(request.group_id)
        records: list[GroupsRecord] = []
        results = []
        for topic_partition in request.partitions:
            code = ErrorCode.NONE
            if subscribed is None or topic_partition.topic in subscribed:
                code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            elif image is not None and image.knows(topic_partition):
                records.append(OffsetRecord(request.group_id, topic_partition, None))
            results.append((topic_partition, code))
        self._env.write(records, DeleteOffsetsResult(ErrorCode.NONE, tuple(results)), reply_to)


def _fault_of(group: ClassicGroup | None, request: CommitOffsets) -> ErrorCode:
    """What stands against a commit."""
    is_member = request.generation_id > NO_GENERATION
    if group is None and is_member:
        is_newer = request.may_name_epoch
        return ErrorCode.GROUP_ID_NOT_FOUND if is_newer else ErrorCode.ILLEGAL_GENERATION
    if group is None:
        return ErrorCode.NONE
    if not is_member and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    names_member = request.member_id != NO_MEMBER or request.group_instance_id is not None
    if not (is_member or names_member):
        return ErrorCode.UNKNOWN_MEMBER_ID
    code = group.fault_in_generation(
        request.member_id, request.group_instance_id, request.generation_id
    )
    if code is not ErrorCode.NONE:
        return code
    if group.state is GroupState.COMPLETING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _fault_of_member(group: ConsumerGroup, request: CommitOffsets, limit: int) -> ErrorCode:
    """What stands against a commit to a consumer group, in which longer metadata is refused."""
    said = request.generation_id
    if said < 0 and not group.subscriptions:
        return ErrorCode.NONE
    if request.member_id not in group.subscriptions:
        return ErrorCode.UNKNOWN_MEMBER_ID
    is_classic = group.subscriptions[request.member_id].classic is not None
    if not (request.may_name_epoch or is_classic):
        return ErrorCode.UNSUPPORTED_VERSION
    current = group.current(request.member_id)
    if said == current.epoch:
        return ErrorCode.NONE
    stale = ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH
    if said > current.epoch:
        return stale
    # The member has not received its newest epoch; what it had before that epoch it may commit.
    held = {**current.assigned, **current.revoking}
    for (_, number), value in request.offsets:
        since = held.get(IdPartition(value.topic_id, number))
        if len(value.metadata) <= limit and (since is None or since > said):
            return stale
    return ErrorCode.NONE


def _fault_in_transaction(group: ConsumerGroup, commit: CommitOffsets, limit: int) -> ErrorCode:
    """What stands against a commit in a transaction, whose client need not name a member."""
    names_member = commit.member_id != NO_MEMBER or commit.group_instance_id is not None
    if commit.generation_id == NO_GENERATION and not names_member:
        return ErrorCode.NONE
    code = _fault_of_member(group, commit._replace(may_name_epoch=True), limit)
    return ErrorCode.ILLEGAL_GENERATION if code is ErrorCode.STALE_MEMBER_EPOCH else code


def _fault_of_reader(group: ConsumerGroup, request: FetchOffsets) -> ErrorCode:
    """What stands against a question to a consumer group; who names no member may always ask."""
    if request.member_id is None and request.member_epoch < 0:
        return ErrorCode.NONE
    member = group.subscriptions.get(request.member_id or NO_MEMBER)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if request.member_epoch != group.current(request.member_id or NO_MEMBER).epoch:
        is_classic = member.classic is not None
        return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH
    return ErrorCode.NONE

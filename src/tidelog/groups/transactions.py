"""Offsets that were committed in a transaction, until the transaction ends.

A client that consumes, transforms and produces commits its offsets in the transaction of what it
produces (TxnOffsetCommit). The offsets are written to the group's partition at once and *wait*:
when the marker of a commit comes they count, when that of an abort comes they are dropped. So an
offset moves exactly if the records do that it stands for (I27). The markers of all partitions of a
transaction say the same.

In the log the offsets stand where they were written, and count as if they had been committed there.
A plain commit of the same partition that came behind them, or one of another transaction, is newer
whatever the order of the markers: then those that wait are *superseded*.

A client that asks for stable offsets (`require_stable`) has to ask again while one waits:
else it might begin before offsets that the last transaction of its predecessor is about to commit,
and consume the records in between twice (KAFKA-13574, KIP-447).

Who may commit: a member of the present generation, if the client says which; before version 3 of
TxnOffsetCommit anyone, since the epoch of the producer fences (KIP-447). A client without a
generation commits for any group, as in Kafka.

Invariants
- OffsetsWithTheirTransaction: an offset that waits counts if and only if its transaction commits.
- WaitsUntilMarked: what waits stays until the marker comes, or the offset is deleted.

Source: KIP-98, KIP-447, KIP-890; Kafka's OffsetMetadataManager.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.errors import ErrorCode
from tidelog.groups.classic_group import ClassicGroup
from tidelog.groups.messages import NO_GENERATION, NO_MEMBER, CommitOffsets
from tidelog.groups.records import CommittedOffset, OffsetRecord
from tidelog.model import TopicPartition


class PendingOffset(NamedTuple):
    """A record: an offset is committed in a transaction."""

    producer_id: int
    producer_epoch: int
    offset: OffsetRecord


class WaitingCommit(NamedTuple):
    """An offset that waits for the end of its transaction."""

    value: CommittedOffset
    written: tuple[int, int]
    """Its place in the log: that of a record of another transaction is greater or smaller."""
    is_superseded: bool = False
    """Whether a newer commit is in force: it waits, and will not count."""


Waiting = Mapping[int, Mapping[TopicPartition, WaitingCommit]]
"""What waits in a group, by producer id."""

NOTHING_WAITS: Waiting = {}


def waits_for(waiting: Waiting, topic_partition: TopicPartition) -> bool:
    """Whether a transaction that is open may move this offset."""
    return any(topic_partition in commits for commits in waiting.values())


def superseded(
    waiting: Waiting, topic_partition: TopicPartition, before: tuple[int, int] | None
) -> Waiting:
    """What waits when a commit of a partition has come into force that stands at `before` in the
    log; behind all that waits, if that is `None`."""
    changed = {}
    for producer_id, commits in waiting.items():
        found = commits.get(topic_partition)
        is_older = found is not None and (before is None or found.written < before)
        if found is not None and is_older and not found.is_superseded:
            late = found._replace(is_superseded=True)
            changed[producer_id] = {**commits, topic_partition: late}
    return {**waiting, **changed} if changed else waiting


def without(waiting: Waiting, topic_partition: TopicPartition) -> Waiting:
    """What waits when an offset is deleted."""
    if not waits_for(waiting, topic_partition):
        return waiting
    left = {
        producer_id: {key: value for key, value in commits.items() if key != topic_partition}
        for producer_id, commits in waiting.items()
    }
    return {producer_id: commits for producer_id, commits in left.items() if commits}


def fault_of(group: ClassicGroup | None, commit: CommitOffsets) -> ErrorCode:
    """What stands against a commit in a transaction."""
    names_generation = commit.generation_id > NO_GENERATION
    if group is None:
        return ErrorCode.ILLEGAL_GENERATION if names_generation else ErrorCode.NONE
    names_member = commit.member_id != NO_MEMBER or commit.group_instance_id is not None
    if not (names_generation or (names_member and group.members)):
        return ErrorCode.NONE
    return group.fault_in_generation(
        commit.member_id, commit.group_instance_id, commit.generation_id
    )

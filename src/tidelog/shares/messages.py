"""What is asked of a share coordinator, and what it answers: plain values without versions.

Every request is about one share partition, and names it first. Every request has one answer: a
`StateResult`, or a `Refused` when the coordinator could not look at it at all.
"""

from typing import NamedTuple

from tidelog.errors import ErrorCode
from tidelog.model import NO_EPOCH, NO_OFFSET
from tidelog.rsm.coordinator import Refused
from tidelog.shares.batches import StateBatch
from tidelog.shares.records import NO_COUNT, SharePartition, Snapshot


class InitializeState(NamedTuple):
    """API 83: the state begins anew."""

    partition: SharePartition
    state_epoch: int
    start_offset: int = NO_OFFSET
    """-1: the group's `share.auto.offset.reset` will say."""


class ReadState(NamedTuple):
    """API 84: all that is known, for the partition's leader."""

    partition: SharePartition
    leader_epoch: int = NO_EPOCH
    """From now on leaders of lower epochs are fenced; -1 fences none."""


class WriteState(NamedTuple):
    """API 85: what has changed, from the partition's leader."""

    partition: SharePartition
    state_epoch: int
    leader_epoch: int
    start_offset: int
    complete: int = NO_COUNT
    batches: tuple[StateBatch, ...] = ()


class DeleteState(NamedTuple):
    """API 86: forget the share partition."""

    partition: SharePartition


class ReadSummary(NamedTuple):
    """API 87: how far has the group come?"""

    partition: SharePartition


class StateResult(NamedTuple):
    """What is known about the share partition, where that was asked."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: Snapshot | None = None


Request = InitializeState | ReadState | WriteState | DeleteState | ReadSummary
Response = StateResult | Refused

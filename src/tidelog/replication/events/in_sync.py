"""Events of in-sync replicas: proposals, their answers, and what a high watermark waits for."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from tidelog.env.event import Event, Kind, PartitionEvent, Payload
from tidelog.errors import ErrorCode
from tidelog.replication.events.shape import NoAnswer, ReplicasEvent, Shown, present, reason_name


@dataclass(frozen=True, slots=True, kw_only=True)
class _ErrorEvent(PartitionEvent):
    """A decision whose reason is the error code of an answer."""

    reason: ErrorCode

    def why(self) -> str:
        """The name of the code."""
        return self.reason.name


class IsrUpdateReason(StrEnum):
    """Where a change of the ISR came from."""

    AS_PROPOSED = "as proposed"
    BY_THE_CONTROLLER = "by the controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrUpdated(PartitionEvent):
    """The metadata has another ISR than the leader had."""

    handler: ClassVar = "become_leader"
    decision: ClassVar = "isr changed"

    reason: IsrUpdateReason
    was: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int
    high_watermark: int

    def shown(self) -> Shown:
        """Both ISRs as one."""
        (_, was), (_, isr), *rest = Event.shown(self)
        return (("isr", f"{was}->{isr}"), *rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrExpansionProposed(PartitionEvent):
    """A leader proposes that a follower joins the ISR."""

    handler: ClassVar = "maybe_expand_isr"
    decision: ClassVar = "proposed"
    kind: ClassVar = Kind.ISR_PROPOSAL
    reason: ClassVar = "caught up to the high watermark"

    replica: int
    isr: tuple[int, ...]
    log_end: int
    """Of the follower."""
    high_watermark: int
    epoch_start: int

    def payload(self) -> Payload:
        """The follower in a list, as in proposals to shrink."""
        found = Event.payload(self)
        followers, log_ends = (found.pop("replica"),), (found.pop("log_end"),)
        return {**found, "followers": followers, "log_ends": log_ends}


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrShrinkProposed(PartitionEvent):
    """A leader proposes that members leave the ISR."""

    about: ClassVar = ("partition", "lag_time_max_ms")
    handler: ClassVar = "maybe_shrink_isr"
    decision: ClassVar = "proposed"
    kind: ClassVar = Kind.ISR_PROPOSAL

    leaving: tuple[int, ...]
    isr: tuple[int, ...]
    log_ends: tuple[int, ...]
    """Of the members that are to leave, in their order."""
    level_ms_ago: tuple[int, ...]
    """How long ago each was level with the leader; -1 for never."""
    high_watermark: int
    log_end: int
    """Of the leader."""
    lag_time_max_ms: int

    def why(self) -> str:
        """With the limit."""
        return f"not level for {self.lag_time_max_ms} ms"

    def payload(self) -> Payload:
        """The members as `followers` too, as in proposals to expand."""
        return {**Event.payload(self), "followers": self.leaving}


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrCommitted(PartitionEvent):
    """The controller has committed a proposal."""

    handler: ClassVar = "on_isr_answer"
    decision: ClassVar = "committed"

    isr: tuple[int, ...]
    epoch: int
    """The partition epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposalRefused(_ErrorEvent):
    """The controller has refused a proposal."""

    handler: ClassVar = "on_isr_answer"
    decision: ClassVar = "refused"

    isr: tuple[int, ...]
    """The committed ISR, which counts again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposalPending(_ErrorEvent):
    """The controller knows something newer: newer metadata will settle a proposal."""

    handler: ClassVar = "on_isr_answer"
    decision: ClassVar = "waits for metadata"

    maximal_isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposalRetried(_ErrorEvent):
    """A proposal is sent again."""

    handler: ClassVar = "on_isr_answer"
    decision: ClassVar = "retrying"

    maximal_isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionRetried(Event):
    """A whole request of proposals has failed, and is sent again."""

    subject: ClassVar = "isr_updates"
    handler: ClassVar = "on_response"
    decision: ClassVar = "retrying"

    reason: NoAnswer | ErrorCode
    in_ms: int

    def why(self) -> str:
        """The name of a code."""
        return reason_name(self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrCheckSkipped(ReplicasEvent):
    """A check came so late that the process must have been paused."""

    handler: ClassVar = "check_isrs"
    decision: ClassVar = "skipped"
    reason: ClassVar = "paused"

    late_ms: int


class StallReason(StrEnum):
    """What the high watermark waits for."""

    UNDER_MIN_ISR = "under min isr"
    OWN_FLUSH = "own flush"
    REPLICAS_LACK_RECORDS = "replicas lack records"


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkStalled(PartitionEvent):
    """An acks=all request has waited for long; logged once per stall."""

    handler: ClassVar = "check_isrs"
    decision: ClassVar = "high watermark stands still"
    kind: ClassVar = Kind.HW_STALL

    reason: StallReason
    isr: tuple[int, ...] | None = None
    """With `min_isr`: under min ISR."""
    min_isr: int | None = None
    recovery_point: int | None = None
    """What this replica has flushed."""
    log_ends: Mapping[int, int] | None = None
    """Of each replica that lacks records."""
    for_ms: int
    high_watermark: int
    required: int
    """The high watermark that the oldest request needs."""
    acks: int
    """Requests that wait."""

    def shown(self) -> Shown:
        """Without what belongs to another reason."""
        return present(Event.shown(self))

    def payload(self) -> Payload:
        """The replicas and their log ends as two lists."""
        found = Event.payload(self)
        if self.log_ends is not None:
            del found["log_ends"]
            found |= {
                "followers": tuple(self.log_ends),
                "log_ends": tuple(self.log_ends.values()),
            }
        return found

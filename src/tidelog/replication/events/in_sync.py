"""Events of leaders: ISR proposals, their answers, what a high watermark waits for, and what is
measured, for events files and never log lines."""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from tidelog.env.event import Event, Kind, Level, PartitionEvent, Payload, event
from tidelog.errors import ErrorCode
from tidelog.replication.events.shape import NoAnswer, ReplicasEvent, Shown, present


class IsrUpdateReason(StrEnum):
    """Where a change of the ISR came from."""

    AS_PROPOSED = "as proposed"
    BY_THE_CONTROLLER = "by the controller"


@event("become_leader", "isr changed")
class IsrUpdated(PartitionEvent):
    """The metadata has another ISR than the leader had."""

    reason: IsrUpdateReason
    was: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int
    high_watermark: int

    def shown(self) -> Shown:
        """Both ISRs as one."""
        (_, was), (_, isr), *rest = Event.shown(self)
        return (("isr", f"{was}->{isr}"), *rest)


@event("maybe_expand_isr", "proposed", Kind.ISR_PROPOSAL)
class IsrExpansionProposed(PartitionEvent):
    """A leader proposes that a follower joins the ISR."""

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


@event("maybe_shrink_isr", "proposed", Kind.ISR_PROPOSAL, about=("partition", "lag_time_max_ms"))
class IsrShrinkProposed(PartitionEvent):
    """A leader proposes that members leave the ISR."""

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
    """The limit; 0 for members that seem to be dead."""

    def why(self) -> str:
        """With the limit."""
        if not self.lag_time_max_ms:
            return "not level, and refuses connections"
        return f"not level for {self.lag_time_max_ms} ms"

    def payload(self) -> Payload:
        """The members as `followers` too, as in proposals to expand."""
        return {**Event.payload(self), "followers": self.leaving}


@event("on_isr_answer", "committed")
class IsrCommitted(PartitionEvent):
    """The controller has committed a proposal."""

    isr: tuple[int, ...]
    epoch: int
    """The partition epoch."""


@event("on_isr_answer", "refused")
class IsrProposalRefused(PartitionEvent):
    """The controller has refused a proposal."""

    reason: ErrorCode
    isr: tuple[int, ...]
    """The committed ISR, which counts again."""


@event("on_isr_answer", "waits for metadata")
class IsrProposalPending(PartitionEvent):
    """The controller knows something newer: newer metadata will settle a proposal."""

    reason: ErrorCode
    maximal_isr: tuple[int, ...]


@event("on_isr_answer", "retrying")
class IsrProposalRetried(PartitionEvent):
    """A proposal is sent again."""

    reason: ErrorCode
    maximal_isr: tuple[int, ...]


@event("on_response", "retrying")
class AlterPartitionRetried(Event):
    """A whole request of proposals has failed, and is sent again."""

    subject: ClassVar = "isr_updates"

    reason: NoAnswer | ErrorCode
    in_ms: int


@event("check_isrs", "skipped")
class IsrCheckSkipped(ReplicasEvent):
    """A check came so late that the process must have been paused."""

    reason: ClassVar = "paused"

    late_ms: int


class StallReason(StrEnum):
    """What the high watermark waits for."""

    UNDER_MIN_ISR = "under min isr"
    OWN_FLUSH = "own flush"
    REPLICAS_LACK_RECORDS = "replicas lack records"


@event("check_isrs", "high watermark stands still", Kind.HW_STALL)
class HighWatermarkStalled(PartitionEvent):
    """An acks=all request has waited for long; logged once per stall."""

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
            found |= {"followers": tuple(self.log_ends), "log_ends": tuple(self.log_ends.values())}
        return found


@event("on_append", "append", Kind.APPEND, level=Level.MEASURE)
class AppendSampled(PartitionEvent):
    """An append whose commit is now waited for."""

    leader_epoch: int
    required: int
    """The high watermark that commits it."""
    high_watermark: int


@event("on_advance", "hw_advance", Kind.HW_ADVANCE, level=Level.MEASURE)
class HighWatermarkAdvanced(PartitionEvent):
    """The high watermark moved."""

    leader_epoch: int
    high_watermark: int
    log_end: int
    followers: tuple[int, ...]
    log_ends: tuple[int, ...]
    required: int | None = None
    """Of the sampled append that is now committed."""

    def shown(self) -> Shown:
        """Without an append that was not sampled."""
        return present(Event.shown(self))


@event("report_lag", "fetch_lag", Kind.FETCH_LAG, level=Level.MEASURE)
class FetchLagMeasured(PartitionEvent):
    """Followers that have not been level for a while, in the ISR or not."""

    leader_epoch: int
    log_end: int
    followers: tuple[int, ...]
    log_ends: tuple[int, ...]
    level_ms_ago: tuple[int, ...]

"""Events of in-sync replicas: proposals, their answers, and what a high watermark waits for."""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from tidelog.env.event import Event, Kind, PartitionEvent, Payload, event
from tidelog.errors import ErrorCode
from tidelog.replication.events.shape import NoAnswer, ReplicasEvent, Shown, present, reason_name


@event()
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

    def why(self) -> str:
        """With the limit."""
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
class IsrProposalRefused(_ErrorEvent):
    """The controller has refused a proposal."""

    isr: tuple[int, ...]
    """The committed ISR, which counts again."""


@event("on_isr_answer", "waits for metadata")
class IsrProposalPending(_ErrorEvent):
    """The controller knows something newer: newer metadata will settle a proposal."""

    maximal_isr: tuple[int, ...]


@event("on_isr_answer", "retrying")
class IsrProposalRetried(_ErrorEvent):
    """A proposal is sent again."""

    maximal_isr: tuple[int, ...]


@event("on_response", "retrying")
class AlterPartitionRetried(Event):
    """A whole request of proposals has failed, and is sent again."""

    subject: ClassVar = "isr_updates"

    reason: NoAnswer | ErrorCode
    in_ms: int

    def why(self) -> str:
        """The name of a code."""
        return reason_name(self.reason)


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

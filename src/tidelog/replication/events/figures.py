"""What a leader measures of its partitions; for events files, never log lines."""

from dataclasses import dataclass
from typing import ClassVar

from tidelog.env.event import Event, Kind, Level, PartitionEvent
from tidelog.replication.events.shape import Shown, present


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendSampled(PartitionEvent):
    """An append whose commit is now waited for."""

    level: ClassVar = Level.MEASURE
    handler: ClassVar = "on_append"
    decision: ClassVar = "append"
    kind: ClassVar = Kind.APPEND

    leader_epoch: int
    required: int
    """The high watermark that commits it."""
    high_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkAdvanced(PartitionEvent):
    """The high watermark moved."""

    level: ClassVar = Level.MEASURE
    handler: ClassVar = "on_advance"
    decision: ClassVar = "hw_advance"
    kind: ClassVar = Kind.HW_ADVANCE

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


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLagMeasured(PartitionEvent):
    """Followers that have not been level for a while, in the ISR or not."""

    level: ClassVar = Level.MEASURE
    handler: ClassVar = "report_lag"
    decision: ClassVar = "fetch_lag"
    kind: ClassVar = Kind.FETCH_LAG

    leader_epoch: int
    log_end: int
    followers: tuple[int, ...]
    log_ends: tuple[int, ...]
    level_ms_ago: tuple[int, ...]

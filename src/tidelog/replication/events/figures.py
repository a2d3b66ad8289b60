"""What a leader measures of its partitions; for events files, never log lines."""

from tidelog.env.event import Event, Kind, Level, PartitionEvent, event
from tidelog.replication.events.shape import Shown, present


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

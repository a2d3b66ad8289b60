"""Which part of a log may be cleaned, and whether it is worth it.

    log start      cleaned_to                    end          log end
        |  clean part  |   dirty part              |  not yet    |

The end is the lowest of: the last stable offset (nothing undecided is cleaned, nor anything that
is not committed), the active segment, the recovery point (what is not durable is scanned after a
crash, and a cleaned log is not made worse by that), and the first segment that has a record younger
than `min.compaction.lag.ms`.

A log is worth it when more than `min.cleanable.dirty.ratio` of what may be cleaned is dirty, or its
oldest dirty record is older than `max.compaction.lag.ms`.

Invariant: *CleansDecided*: the end is never above the last stable offset, thus not above the high
watermark.

Source: Kafka's `LogCleanerManager.cleanableOffsets`, `LogToClean`.
"""

from typing import NamedTuple

from tidelog.log.state import LogState


class Cleanable(NamedTuple):
    """A log that may be cleaned."""

    dirty_start: int
    """Inclusive."""
    end: int
    """Exclusive."""
    clean_bytes: int
    dirty_bytes: int
    """Whole segments."""
    is_overdue: bool
    """Whether a record waits longer than `max.compaction.lag.ms`."""

    @property
    def ratio(self) -> float:
        """The dirty share."""
        return self.dirty_bytes / max(1, self.clean_bytes + self.dirty_bytes)


def cleanable_part(state: LogState, wall_ms: int) -> Cleanable | None:
    """What may be cleaned of a log and is worth it; `None` for nothing."""
    config = state.config
    dirty_start = max(state.cleaned_to, state.log_start_offset)
    segments = state.segments.covering(dirty_start)[:-1]
    end = min(state.last_stable_offset, state.segments.active.base_offset, state.recovery_point)
    for segment in segments:
        young = segment.max_timestamp > wall_ms - config.min_compaction_lag_ms
        if config.min_compaction_lag_ms and young:
            end = min(end, segment.base_offset)
            break
    dirty = [segment for segment in segments if segment.base_offset < end]
    dirty_bytes = sum(segment.size_bytes for segment in dirty)
    if end <= dirty_start or not dirty_bytes:
        return None
    before = dirty[0].base_offset
    clean_bytes = sum(one.size_bytes for one in state.segments if one.base_offset < before)
    oldest_ms = dirty[0].first_timestamp
    is_overdue = 0 <= oldest_ms < wall_ms - config.max_compaction_lag_ms
    found = Cleanable(dirty_start, end, clean_bytes, dirty_bytes, is_overdue)
    return found if is_overdue or found.ratio > config.min_cleanable_dirty_ratio else None

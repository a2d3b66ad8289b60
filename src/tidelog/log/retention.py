"""Retention: which records a log may drop because it is too large, or because they are too old.

Every replica decides for itself; nothing is agreed. Whole segments go, the oldest first, and the
first one that has to stay ends the search. What goes must be below the high watermark.

| rule | a segment goes when |
| --- | --- |
| size | the log is `retention.bytes` or larger without it |
| time | its largest timestamp is more than `retention.ms` ago |

Both are for topics whose `cleanup.policy` has `delete`. The largest timestamp counts, so a segment
with one record of the future stays. A segment whose records have none has the age of its first
append or, after a start, of the first look at it.

The active segment goes too when all of its records are to go: it is sealed, and an empty one begins
at the log end.

A decision is a new log start. The files follow in a second step, when the log start is durable
(`replication/delete_path.py`).

Source: Kafka's `UnifiedLog.deleteOldSegments`.
"""

from tidelog.log.rolling import roll
from tidelog.log.segment import Segment
from tidelog.log.state import LogState


def decide_log_start(state: LogState, wall_ms: int) -> int:
    """Where the log is to start: at its start or above, and not above its high watermark."""
    config = state.config
    start = state.log_start_offset
    if "delete" not in config.cleanup_policy:
        return start
    live = state.segments.covering(start)
    excess_bytes = sum(segment.size_bytes for segment in live) - config.retention_bytes
    if config.retention_bytes < 0:
        excess_bytes = -1
    for index, segment in enumerate(live):
        is_active = index == len(live) - 1
        end = state.log_end_offset if is_active else live[index + 1].base_offset
        if end > state.high_watermark or (is_active and not segment.size_bytes):
            break
        excess_bytes -= segment.size_bytes
        is_kept = excess_bytes < 0 and not is_expired(segment, config.retention_ms, wall_ms)
        if is_kept and segment.size_bytes:
            break
        start = max(start, end)
    return start


def is_expired(segment: Segment, retention_ms: int, wall_ms: int) -> bool:
    """Whether all records of a segment are older than that; -1 for never."""
    if retention_ms < 0:
        return False
    timestamp = segment.max_timestamp
    if timestamp < 0:
        if segment.created_ms < 0:
            segment.created_ms = wall_ms
        timestamp = segment.created_ms
    return wall_ms - timestamp > retention_ms


def maybe_retain(state: LogState, wall_ms: int) -> bool:
    """Raises the log start to where retention wants it; returns whether it was lower. Raises
    `StorageError`."""
    start = decide_log_start(state, wall_ms)
    if start <= state.log_start_offset:
        return False
    if start == state.log_end_offset and state.segments.active.size_bytes:
        roll(state, start)
    return state.maybe_raise_log_start_offset(start)

"""Deletion at the head of a log: raising its start, and deleting the segments below it.

DeleteRecords, a leader's higher start and snapshots of the metadata log raise the start; files go
in a second step, whole segments at a time. Retention belongs here too: it is a third reason to
raise the start.

Invariants
- The log start never passes the high watermark.
- The active segment stays.
"""

from tidelog.errors import ErrorCode, ProtocolError
from tidelog.log.state import LogState


def maybe_raise_log_start_offset(state: LogState, value: int) -> bool:
    """Raises the log start. Raises OFFSET_OUT_OF_RANGE above the high watermark."""
    if value <= state.log_start_offset:
        return False
    if value > state.high_watermark:
        raise ProtocolError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"log start `{value}` would pass the high watermark `{state.high_watermark}`",
        )
    state.log_start_offset = value
    state.epochs.truncate_from_start(value)
    return True


def delete_segments_below_start(state: LogState, limit: int) -> int:
    """Deletes the segments that end at or below the log start and the limit; returns how many."""
    dropped = state.segments.drop_below(min(limit, state.log_start_offset))
    for segment in dropped:
        segment.delete()
    state.snapshots.drop_below(state.segments.first_base_offset)
    return len(dropped)

"""How long snapshots and the metadata log are kept (`metadata.max.retention.bytes`, `.ms`).

The oldest snapshot is forgotten, and the log then begins where the next one ends, while

- log and snapshots together are larger than `metadata.max.retention.bytes`, or
- the oldest snapshot is older than `metadata.max.retention.ms`,

and a next one is there: the newest snapshot always stays. Segments that end at or below the new
start are deleted, the oldest first: one a turn, with a pause behind it, since nothing waits for
that. A process that ends before they are gone starts with them, and its log begins where its oldest
snapshot ends.

Invariants
- *SnapshotAtLogStart*: the log begins at 0 or at the end of a snapshot that is kept, so log and
  snapshots together give the state at every time.
- The log's start never passes the high watermark: a snapshot stands for committed records only.

Source: KIP-630; Kafka's `KafkaRaftLog.maybeClean`.
"""

from collections.abc import Callable
from typing import Final

from tidelog.env.instant import LONG_AGO, Instant
from tidelog.errors import CorruptBatch
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.events import CleaningCause, CleaningReason, LogCleaned
from tidelog.kraft.messages import SnapshotId
from tidelog.limits import METADATA_DELETION_PAUSE_MS
from tidelog.records.batch import read_header

CLEAN_INTERVAL_MS: Final = 60_000
_HEADER_BATCH_BYTES: Final = 1 << 16
"""Enough for the first batch of any snapshot: its header and the voters."""


class LogCleaner:
    """Moves the log's start from snapshot to snapshot."""

    def __init__(self, core: QuorumCore) -> None:
        self._core = core
        # When to look next, if nothing gives cause before.
        self._clean_at: Instant = Instant(0)
        # When the next segment below the log's start goes; `None` when all are gone, and that has
        # been seen. A former process may have left some.
        self._delete_at: Instant | None = LONG_AGO

    def deadline(self) -> Instant | None:
        """When the next segment goes."""
        return self._delete_at

    def wake(self, now: Instant) -> None:
        """Looks at the retention, and deletes a segment below the log's start, when it is time."""
        log = self._core.log
        is_due = self._delete_at is not None and now >= self._delete_at
        if is_due and not log.segments.count_below(log.log_start_offset):
            self._delete_at, self._clean_at = None, now
        if self._delete_at is None and now >= self._clean_at:
            self.clean(now)
        if self._delete_at is not None and now >= self._delete_at:
            log.delete_segments_below(log.log_start_offset, 1)
            self._delete_at = Instant(now + METADATA_DELETION_PAUSE_MS)

    def clean(self, now: Instant) -> None:
        """Gives up what is not kept any longer; looks again when its segments are gone."""
        self._clean_at = Instant(now + CLEAN_INTERVAL_MS)
        self._clean_while(self._cause_of_size)
        wall_ms = now + self._core.wall_offset_ms
        self._clean_while(lambda oldest: self._cause_of_age(oldest, wall_ms))

    def _clean_while(self, cause_of: Callable[[SnapshotId], CleaningCause | None]) -> None:
        core = self._core
        while len(core.snapshots.ids) > 1 and self._delete_at is None:
            oldest, following = core.snapshots.ids[:2]
            cause = cause_of(oldest)
            if cause is None:
                break
            segments = self._raise_log_start(following)
            core.snapshots.forget_before(following.end_offset, str(cause))
            core.env.trace.event(
                LogCleaned(reason=cause, log_start=core.log.log_start_offset, segments=segments)
            )

    def _raise_log_start(self, snapshot_id: SnapshotId) -> int:
        """Lets the log begin where a snapshot ends; returns how many segments go."""
        log = self._core.log
        log.maybe_raise_log_start_offset(snapshot_id.end_offset)
        segments = log.segments.count_below(log.log_start_offset)
        if segments and self._delete_at is None:
            self._delete_at = LONG_AGO
        return segments

    def _cause_of_size(self, _oldest: SnapshotId) -> CleaningCause | None:
        core = self._core
        kept_bytes = core.log.size_bytes + sum(
            core.snapshots.size_of(snapshot_id) for snapshot_id in core.snapshots.ids
        )
        limit = core.config.max_retention_bytes
        if not 0 <= limit < kept_bytes:
            return None
        return CleaningCause(CleaningReason.TOO_LARGE, kept_bytes, limit)

    def _cause_of_age(self, oldest: SnapshotId, wall_ms: int) -> CleaningCause | None:
        limit_ms = self._core.config.max_retention_ms
        if limit_ms < 0:
            return None
        try:
            head = self._core.snapshots.read_at(oldest, 0, _HEADER_BATCH_BYTES)
            age_ms = wall_ms - read_header(head).max_timestamp
        except CorruptBatch as error:
            return CleaningCause(CleaningReason.UNREADABLE, fault=error.message)
        if age_ms <= limit_ms:
            return None
        return CleaningCause(CleaningReason.TOO_OLD, age_ms, limit_ms)

    def align(self) -> None:
        """A log without a snapshot at its start, because that one was damaged, begins at the
        oldest that there is."""
        core = self._core
        start = core.log.log_start_offset
        earliest = core.snapshots.earliest
        if start > 0 and earliest is not None and earliest.end_offset > start:
            self._raise_log_start(earliest)

    def check(self) -> None:
        """Asserts that nothing below the log's start is missing, unless all snapshots are."""
        core = self._core
        start = core.log.log_start_offset
        earliest = core.snapshots.earliest
        assert start == 0 or earliest is None or earliest.end_offset == start, (
            f"SnapshotAtLogStart: log starts at {start}, the oldest snapshot is {earliest}"
        )

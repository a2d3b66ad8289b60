"""Retention on the replicas of a node: looks for what they may drop, and takes the files away.

Every `log.retention.check.interval.ms`, and when the configuration of a replica changes, each
replica decides where its log is to start (`log/retention.py`); leaders and followers alike, each by
what it has. Nothing waits for it: a follower whose leader has dropped more gets the leader's log
start with the answers to its fetches, and one that has dropped more itself keeps its own.

**Files.** A log start that has risen, by retention or by DeleteRecords, leaves segments behind it:

1. The file `log-start-offset-checkpoint` with the new start becomes durable. So a start after a
   crash never takes for damage what was deleted on purpose: below the checkpointed start anything
   may be missing (`log/loading.py`).
2. The segments leave the log and their files get the suffix `.deleted`.
3. After `file.delete.delay.ms` the files are deleted (`log/deleted_files.py`).

Each of the three works in slices, so that no turn is long. The active segment stays.

Source: Kafka's `LogManager.cleanupLogs`, `UnifiedLog.deleteOldSegments`.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from tidelog.env.instant import Instant, earliest
from tidelog.errors import StorageError
from tidelog.limits import (
    MAX_SEGMENTS_DELETED_PER_TURN,
    MAX_SEGMENTS_JUDGED_PER_TURN,
    MAX_SEGMENTS_TAKEN_OUT_PER_TURN,
)
from tidelog.log.deleted_files import DeletedSegment, DeletionNotDurable
from tidelog.log.log import Log
from tidelog.log.retention import maybe_retain
from tidelog.model import Uuid
from tidelog.replication.events.roles import ClearingPostponed
from tidelog.replication.messages import LogStart, LogStartsSaved
from tidelog.replication.partition import Partition
from tidelog.replication.shared import Env, Recurring

_RETRY_MS: Final = 60_000


class Retention:
    """Drops old records, and the files of segments below log starts."""

    __slots__ = ("_at", "_doomed", "_env", "_files_at", "_has_dropped", "_rest", "checks")

    def __init__(self, env: Env) -> None:
        self._env = env
        # When all replicas are looked at.
        self.checks = Recurring(env.config.retention_check_interval_ms)
        # Those that have not had their turn.
        self._rest: deque[Partition] = deque()
        # Whether one of this pass has raised its log start.
        self._has_dropped = False
        # Whose segments below a durable log start are to go, and that log start; in which directory
        # the log was then.
        self._doomed: deque[tuple[Uuid, LogStart]] = deque()
        # When the next slice of the two is due; `None` while there is nothing to do.
        self._at: Instant | None = None
        # Before this, files are not deleted: an attempt has failed.
        self._files_at: Instant | None = None

    def deadline(self) -> Instant | None:
        """The next instant at which `work` has something to do."""
        deleted = self._env.directories.deleted_files_at
        if deleted is not None and self._files_at is not None:
            deleted = max(deleted, self._files_at)
        return earliest(self.checks.due_at, self._at, deleted)

    def work(self, now: Instant, wall_ms: int) -> bool:
        """One slice of whatever is due; returns whether log starts have risen that are to be
        saved."""
        reconfigured = self._env.changed.reconfigured
        if reconfigured:
            self._rest.extend(reconfigured)
            reconfigured.clear()
            self._at = now
        if self.checks.due(now) is not None:
            self._rest = deque(self._env.hosted.partitions.values())
            self._at = now
        if self._at is not None and now >= self._at:
            self._env.trace.steps.begin("retention")
            self._judge(wall_ms)
            self._take_out(now)
            self._at = Instant(now + 1) if self._rest or self._doomed else None
        self._delete_files(now)
        if self._rest or not self._has_dropped:
            return False
        self._has_dropped = False
        return True

    # Decisions ------------------------------------------------------------------------------

    def _judge(self, wall_ms: int) -> None:
        left = MAX_SEGMENTS_JUDGED_PER_TURN
        while self._rest and left > 0:
            partition = self._rest.popleft()
            left -= len(partition.log.segments)
            if self._is_here(partition) and partition.log.cleaning is None:
                self._retain(partition, wall_ms)

    def _is_here(self, partition: Partition) -> bool:
        hosted = self._env.hosted.partitions.get(partition.topic_partition)
        return hosted is partition and partition.offline is None

    def _retain(self, partition: Partition, wall_ms: int) -> None:
        log = partition.log
        try:
            if maybe_retain(log, wall_ms):
                self._has_dropped = True
                self._env.changed.mark(partition)
                self._env.changed.retained[partition] = None
        except StorageError as error:
            self._env.changed.failed.append((partition, error))

    # Files ----------------------------------------------------------------------------------

    def log_starts_to_save(self, partitions: Iterable[Partition]) -> list[LogStart]:
        """What to take out of these once the log starts are on the device. A start only rises, so
        the checkpoint may be written later."""
        return [
            (partition.topic_partition, partition.topic_id, partition.log.log_start_offset)
            for partition in partitions
            if partition.offline is None and _has_dead_segments(partition.log)
        ]

    def on_log_starts_saved(self, subject: LogStartsSaved, now: Instant) -> None:
        """They are: the segments below may go."""
        self._doomed.extend((subject.directory_id, start) for start in subject.starts)
        self._at = now

    def _take_out(self, now: Instant) -> None:
        left = MAX_SEGMENTS_TAKEN_OUT_PER_TURN
        while self._doomed and left > 0:
            directory_id, (key, topic_id, log_start_offset) = self._doomed[0]
            partition = self._env.hosted.partitions.get(key)
            if partition is None or partition.topic_id != topic_id or partition.offline is not None:
                self._doomed.popleft()
                continue
            directory = self._env.directories.of(key)
            has_moved = directory is None or directory.directory_id != directory_id
            if has_moved or partition.log.cleaning is not None:
                # Its checkpoint is another one now, or a cleaner has its segments; the next
                # checkpoint finds what is still to go.
                self._doomed.popleft()
                continue
            try:
                bases = partition.log.set_segments_aside(log_start_offset, left)
            except StorageError as error:
                self._env.changed.failed.append((partition, error))
                bases = []
            due_at = Instant(now + partition.log.config.file_delete_delay_ms)
            for base_offset in bases:
                self._env.directories.add_deleted(DeletedSegment(key, base_offset, due_at))
            if len(bases) < left:
                self._doomed.popleft()
            left -= len(bases)

    def _delete_files(self, now: Instant) -> None:
        if self._files_at is not None and now < self._files_at:
            return
        self._files_at = None
        try:
            self._env.directories.clear_deleted(now, MAX_SEGMENTS_DELETED_PER_TURN)
        except StorageError as error:
            partition = None
            if isinstance(error, DeletionNotDurable):
                partition = self._env.hosted.partitions.get(error.topic_partition)
            if partition is not None:
                self._env.changed.failed.append((partition, error))
                return
            # No log reads them any more, so only space is at stake.
            self._env.trace.event(ClearingPostponed(reason=str(error)))
            self._files_at = Instant(now + _RETRY_MS)


def _has_dead_segments(log: Log) -> bool:
    segments = log.segments
    return len(segments) > 1 and segments[1].base_offset <= log.log_start_offset

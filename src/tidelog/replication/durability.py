"""What of the hosted logs is on the device: flushes, the log directories' checkpoints, and what
waits until one of them is durable.

**Flushes** are asked for at the end of a tick and answered by the device. A log is flushed when it
holds `flush.messages` records that are not yet durable; at most one flush of a partition is under
way (`partition`). The first flush that makes anything of a log durable is followed by a checkpoint
of the recovery points: a start that finds no recovery point takes the log's records for ones that
never counted.

A failed flush takes the replica offline: what it should have made durable is taken to be lost, and
a later flush that succeeds proves nothing.

**Checkpoints**

| file | written | what waits for it |
| --- | --- | --- |
| `replication-offset-checkpoint` | at its interval | the next one: a disk that hangs gets one |
| `recovery-point-offset-checkpoint` | at its interval, before a cut, after a first flush | \
cuts of durable records (`fetchers`) |
| `log-start-offset-checkpoint` | after the recovery points | deletion of segments (`retention`) |

A log that was renamed to be deleted leaves all three, and its files go when they are durable
without it (`RenamesForgotten`), a few directories a turn. Checkpoints name all logs, so for this
they are written one a turn, when no replica waits for its role, and not again for
`FORGETTING_PAUSE_MS`: a reassignment deletes logs little by little.
"""

from tidelog.env.instant import LONG_AGO, Instant, earliest
from tidelog.errors import StorageError
from tidelog.limits import FORGETTING_PAUSE_MS, MAX_DIRECTORIES_CLEARED_PER_TURN
from tidelog.log.partition_directories import RenamesForgotten
from tidelog.log.pieces import Pieces
from tidelog.log.values import HighWatermarksSaved, LogFlush
from tidelog.replication.events.roles import ClearingPostponed
from tidelog.replication.messages import LogDirFailed, LogStart, LogStartsSaved
from tidelog.replication.partition import Partition
from tidelog.replication.retention import Retention
from tidelog.replication.roles import Roles
from tidelog.replication.shared import Recurring
from tidelog.replication.sweep import Sweep
from tidelog.replication.turn_work import TickPart


class Durability:
    """Asks for flushes, applies their answers, and writes checkpoints at their intervals."""

    __slots__ = (
        "_clear_at",
        "_dead_segments",
        "_env",
        "_first_flush",
        "_forget_at",
        "_forgetting",
        "_forgetting_since",
        "_retention",
        "_roles",
        "_saving",
        "_starts",
        "high_watermarks",
        "recovery_points",
    )

    def __init__(self, roles: Roles, retention: Retention) -> None:
        self._env = roles.env
        self._roles = roles
        self._retention = retention
        # Whether this tick made the first records of some log durable.
        self._first_flush = False
        # The pass that looks for segments below the log starts, and what it has found.
        self._dead_segments = Sweep()
        self._starts: list[LogStart] = []
        # The checkpoints that are being written without renamed logs, and when that began.
        self._forgetting: Pieces[None] | None = None
        self._forgetting_since: Instant = LONG_AGO
        # When the next of them is written; `None` while none is due.
        self._forget_at: Instant | None = None
        # When the next directories of deleted logs go; `None` while there are none.
        self._clear_at: Instant | None = None
        # Directories whose high watermarks are not durable since the interval before.
        self._saving: set[HighWatermarksSaved] = set()
        # When the high watermarks are due, and all other checkpoints.
        config = roles.env.config
        self.high_watermarks = Recurring(config.high_watermark_checkpoint_interval_ms)
        self.recovery_points = Recurring(config.recovery_point_checkpoint_interval_ms)

    def on_flushed(self, subject: LogFlush) -> None:
        """A flush of a hosted log is durable."""
        partition = self._hosted_by(subject)
        if partition is None:
            return
        was_durable = partition.log.claimed_end > 0
        partition.log.on_flushed(subject)
        if subject.completes:
            self._first_flush |= not was_durable and partition.log.claimed_end > 0
            partition.on_flushed()
            self._env.changed.mark(partition)

    def on_flush_failed(self, subject: LogFlush, error: str) -> None:
        """A flush to the first directory failed: what was not yet durable is taken to be lost. A
        copy that moves there ends the node, as any log there, and one that has left it."""
        partition = self._hosted_by(subject)
        directories = self._env.directories
        has_left = directories.of(subject.topic_partition) is not directories.metadata
        if subject.is_future or (partition is not None and has_left):
            self._env.outbox.emit(LogDirFailed(subject.topic_partition, error))
        elif partition is not None:
            self._roles.go_offline(partition, f"flush failed: {error}")

    def _hosted_by(self, subject: LogFlush) -> Partition | None:
        partition = self._env.hosted.partitions.get(subject.topic_partition)
        if partition is None or partition.topic_id != subject.topic_id:
            return None
        return None if partition.offline is not None else partition

    def end_tick(self) -> None:
        """Asks for the flushes that this tick made necessary."""
        for partition in self._env.changed.take_unflushed():
            try:
                partition.maybe_request_flush()
            except StorageError as error:
                self._roles.go_offline(partition, str(error))
        if self._first_flush:
            self._first_flush = False
            self._env.directories.checkpoint_recovery_points()

    def write_due(self, now: Instant, *, may_forget: bool) -> None:
        """Writes the checkpoints whose time has come; those without renamed logs only if it may."""
        if self._forgetting is None:
            self._forget_at = None
            if may_forget and self._env.directories.has_stale_renames:
                self._forget_at = Instant(self._forgetting_since + FORGETTING_PAUSE_MS)
        due_at = earliest(self.high_watermarks.due_at, self.recovery_points.due_at, self._forget_at)
        if due_at is not None and now >= due_at and self._env.work.lets(TickPart.CHECKPOINTS):
            self._write_checkpoints(now)
        if self._dead_segments.next_at is not None:
            self._save_log_starts(now)
        if self._clear_at is not None and now >= self._clear_at:
            self._clear_renamed(now)

    def _write_checkpoints(self, now: Instant) -> None:
        directories, work = self._env.directories, self._env.work
        logs = sum(len(each.logs) for each in directories.online.values())
        if self.high_watermarks.due(now) is not None:
            self._save_high_watermarks()
            work.spend(logs)
        if self.recovery_points.due(now) is not None:
            directories.checkpoint_recovery_points()
            work.spend(logs)
            self.save_log_starts(now)
            self._clear_at = now
        if self._forget_at is not None and now >= self._forget_at:
            self._forget_renamed(now)

    def deadline(self) -> Instant | None:
        """When it goes on with what is written and deleted in several turns."""
        return earliest(self._forget_at, self._clear_at, self._dead_segments.next_at)

    def save_log_starts(self, now: Instant) -> None:
        """Begins to look for dead segments, anew if it was at it."""
        self._starts = []
        self._dead_segments.begin(self._env.hosted.partitions.values(), now)

    def _save_log_starts(self, now: Instant) -> None:
        """Goes on looking for dead segments; after the last replica the log starts are written."""
        found = self._retention.log_starts_to_save(self._dead_segments.take(now))
        self._starts += found
        if self._dead_segments.next_at is None:
            for directory, starts in self._env.directories.split(
                self._starts, lambda each: each[0]
            ):
                subject = LogStartsSaved(directory.directory_id, tuple(starts))
                directory.checkpoint_log_start_offsets(subject if starts else None)

    def _save_high_watermarks(self) -> None:
        for directory in self._env.directories.online.values():
            subject = HighWatermarksSaved(directory.directory_id)
            if subject not in self._saving and directory.checkpoint_high_watermarks(subject):
                self._saving.add(subject)

    def on_saved(self, subject: RenamesForgotten | HighWatermarksSaved, now: Instant) -> None:
        """High watermarks are durable; or the checkpoints without the renamed logs, whose
        directories are deleted now."""
        if isinstance(subject, HighWatermarksSaved):
            self._saving.discard(subject)
            return
        self._env.directories.on_renames_forgotten(subject)
        self._clear_at = now

    def _forget_renamed(self, now: Instant) -> None:
        """Writes one of the checkpoints without renamed logs."""
        if self._forgetting is None:
            self._forgetting = self._env.directories.forget_renamed()
            self._forgetting_since = now
        self._forget_at = Instant(now + 1)
        price = next(self._forgetting, None)
        if price is None:
            self._forgetting = self._forget_at = None
        else:
            self._env.work.spend(price)

    def _clear_renamed(self, now: Instant) -> None:
        self._clear_at = None
        try:
            if self._env.directories.clear_renamed(MAX_DIRECTORIES_CLEARED_PER_TURN):
                self._clear_at = Instant(now + 1)
        except StorageError as error:
            # No log reads there any more, so only space is at stake; the next interval tries again.
            self._env.trace.event(ClearingPostponed(reason=str(error)))

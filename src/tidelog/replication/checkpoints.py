"""The log directory's checkpoints, and what waits until one is durable.

| file | written | what waits for it |
| --- | --- | --- |
| `replication-offset-checkpoint` | at its interval | nothing |
| `recovery-point-offset-checkpoint` | at its interval, before a cut, after a first flush | \
cuts of durable records (`fetchers`) |
| `log-start-offset-checkpoint` | with the recovery points | deletion of segments (`delete_path`) |

A log that was renamed to be deleted leaves all three, and its files go when they are durable
without it (`RenamesForgotten`).
"""

from tidelog.config import ReplicationConfig
from tidelog.env.instant import Instant
from tidelog.env.trace import Trace
from tidelog.errors import StorageError
from tidelog.log.partition_directories import RenamesForgotten
from tidelog.replication.delete_path import DeletePath
from tidelog.replication.events.roles import ClearingPostponed
from tidelog.replication.roles import LogStore
from tidelog.replication.schedule import Recurring


class Checkpoints:
    """Writes checkpoints at their intervals."""

    __slots__ = ("_delete", "_directory", "_trace", "high_watermarks", "recovery_points")

    def __init__(
        self, directory: LogStore, delete: DeletePath, config: ReplicationConfig, trace: Trace
    ) -> None:
        self._directory = directory
        self._delete = delete
        self._trace = trace
        # When the high watermarks are due, and all other checkpoints.
        self.high_watermarks = Recurring(config.high_watermark_checkpoint_interval_ms)
        self.recovery_points = Recurring(config.recovery_point_checkpoint_interval_ms)

    def run_due(self, now: Instant) -> None:
        """Writes the checkpoints whose time has come."""
        if self.high_watermarks.due(now) is not None:
            self._directory.checkpoint_high_watermarks()
        if self.recovery_points.due(now) is not None:
            self._directory.checkpoint_recovery_points()
            self._directory.checkpoint_log_start_offsets(self._delete.log_starts_to_save())
            self.clear_renamed()

    def on_renames_forgotten(self, subject: RenamesForgotten) -> None:
        """The checkpoints without the renamed logs are durable."""
        self._directory.on_renames_forgotten(subject)
        self.clear_renamed()

    def clear_renamed(self) -> None:
        """Deletes the directories of renamed logs that no checkpoint names any more."""
        try:
            self._directory.clear_renamed()
        except StorageError as error:
            # No log reads there any more, so only space is at stake; the next interval tries again.
            self._trace.event(ClearingPostponed(reason=str(error)))

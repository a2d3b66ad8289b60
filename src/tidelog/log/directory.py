"""One Kafka log directory: all logs of a node. (Signatures first.)"""

from tidelog.config import LogConfig
from tidelog.env.disk import Disk
from tidelog.env.effects import EffectQueue
from tidelog.env.trace import Trace
from tidelog.log.log import Log
from tidelog.model import TopicId, TopicPartition, Uuid


class LogDirectory:
    """All logs below one root, with the checkpoints and markers beside them."""

    logs: dict[TopicPartition, Log]
    directory_id: Uuid
    cluster_id: str
    node_id: int
    clean_shutdown_broker_epoch: int | None
    """From the marker of the last clean stop; `None` after a crash or on a new directory."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        *,
        effects: EffectQueue,
        trace: Trace,
        default_config: LogConfig,
        wall_ms: int,
    ) -> "LogDirectory":
        """Loads every partition directory; recovers logs unless the last stop was clean.

        Raises `UsageError` for a directory that is not formatted, `StorageError` for a bad disk.
        """
        raise NotImplementedError

    def create(self, topic_partition: TopicPartition, topic_id: TopicId, config: LogConfig) -> Log:
        """Makes a new empty log."""
        raise NotImplementedError

    def schedule_delete(self, topic_partition: TopicPartition) -> None:
        """Takes the log out of service and renames its directory."""
        raise NotImplementedError

    def delete_renamed(self) -> int:
        """Deletes all renamed directories; returns how many."""
        raise NotImplementedError

    def checkpoint_high_watermarks(self) -> None:
        """Emits `replication-offset-checkpoint`."""
        raise NotImplementedError

    def checkpoint_recovery_points(self) -> None:
        """Emits `recovery-point-offset-checkpoint`."""
        raise NotImplementedError

    def checkpoint_log_start_offsets(self) -> None:
        """Emits `log-start-offset-checkpoint`."""
        raise NotImplementedError

    def close_cleanly(self, broker_epoch: int) -> None:
        """Flushes everything, writes snapshots, checkpoints and the clean marker; synchronous."""
        raise NotImplementedError


def format_directory(disk: Disk, *, cluster_id: str, node_id: int, directory_id: Uuid) -> None:
    """Writes `meta.properties`. Raises `UsageError` when it is there already."""
    raise NotImplementedError

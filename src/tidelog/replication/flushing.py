"""Flushes of hosted logs: asked for at the end of a tick, answered by the device.

A log is flushed when it holds `flush.messages` records that are not yet durable; at most one flush
of a partition is under way (`partition`). The first flush that makes anything of a log durable is
followed by a checkpoint of the recovery points: a start that finds no recovery point takes the
log's records for ones that never counted.

A failed flush takes the replica offline: what it should have made durable is taken to be lost, and
a later flush that succeeds proves nothing.
"""

from tidelog.errors import StorageError
from tidelog.log.values import LogFlush
from tidelog.replication.changed_partitions import ChangedPartitions
from tidelog.replication.hosted import Hosted
from tidelog.replication.partition import Partition
from tidelog.replication.roles import LogStore, Roles


class Flushing:
    """Asks for flushes and applies their answers."""

    __slots__ = ("_changed", "_directory", "_first_flush", "_hosted", "_roles")

    def __init__(
        self, directory: LogStore, hosted: Hosted, changed: ChangedPartitions, roles: Roles
    ) -> None:
        self._directory = directory
        self._hosted = hosted
        self._changed = changed
        self._roles = roles
        # Whether this tick made the first records of some log durable.
        self._first_flush = False

    def on_flushed(self, subject: LogFlush) -> None:
        """A flush of a hosted log is durable."""
        partition = self._hosted_by(subject)
        if partition is None:
            return
        was_durable = partition.log.recovery_point > 0
        partition.log.on_flushed(subject)
        if subject.completes:
            self._first_flush |= not was_durable and partition.log.recovery_point > 0
            partition.on_flushed()
            self._changed.mark(partition)

    def on_flush_failed(self, subject: LogFlush, error: str) -> None:
        """A flush failed: what was not yet durable is taken to be lost."""
        partition = self._hosted_by(subject)
        if partition is not None:
            self._roles.go_offline(partition, f"flush failed: {error}")

    def _hosted_by(self, subject: LogFlush) -> Partition | None:
        partition = self._hosted.partitions.get(subject.topic_partition)
        if partition is None or partition.topic_id != subject.topic_id:
            return None
        return None if partition.offline is not None else partition

    def end_tick(self) -> None:
        """Asks for the flushes that this tick made necessary."""
        for partition in self._changed.take_unflushed():
            try:
                partition.maybe_request_flush()
            except StorageError as error:
                self._roles.go_offline(partition, str(error))
        if self._first_flush:
            self._first_flush = False
            self._directory.checkpoint_recovery_points()

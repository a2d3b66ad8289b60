"""Carries out what the metadata and the devices decide: replicas come, change roles, and go.

A role change touches every part of the package, in an order that matters:
1. The partition itself takes its new role, and with it new epochs.
2. Acks and deletions that wait on a leadership that is over are answered.
3. Fetches that wait are answered, because what they wait for may never come here.
4. Fetching stops, or begins at the new leader.

A replica whose device fails goes offline for the rest of the process's life; it leads and follows
no longer, and its log is not touched any more. A failed flush is such a failure too: what it should
have made durable must be taken to be lost, and a later flush that succeeds proves nothing.

A replica whose log is damaged goes to quarantine instead (`quarantine`), and may come back.

A log whose newest leader epoch is above the metadata's is a sign that the metadata was lost or
restored from an old copy. Following such metadata would cut records that were committed; the
replica stays offline and logs why.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Protocol

from tidelog.config import LogConfig
from tidelog.env.instant import Instant
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode, LogDamaged, StorageError
from tidelog.log.log import Log
from tidelog.log.partition_directories import RenamesForgotten
from tidelog.metadata.image import MetadataImage
from tidelog.model import METADATA_PARTITION, NO_LEADER, ZERO_TOPIC_ID, TopicId, TopicPartition
from tidelog.replication.changed_partitions import ChangedPartitions
from tidelog.replication.delete_path import DeletePath
from tidelog.replication.events.roles import (
    DropReason,
    OldLogDeleted,
    ReplicaDropped,
    ReplicaOffline,
    TopicIdRestored,
)
from tidelog.replication.fetch_path import FetchPath
from tidelog.replication.fetchers import Fetchers
from tidelog.replication.hosted import Hosted
from tidelog.replication.hosting import Drop, Host
from tidelog.replication.isr_updates import IsrUpdates
from tidelog.replication.messages import LogDirFailed
from tidelog.replication.outbox import Outbox
from tidelog.replication.partition import Partition, PartitionEnv
from tidelog.replication.produce_path import ProducePath
from tidelog.replication.quarantine import DamagedLogs, Quarantine
from tidelog.replication.topic_ids import is_damaged_id

LogConfigs = Callable[[str], LogConfig]
"""Topic name to the configuration that its logs obey."""


class LogStore(DamagedLogs, Protocol):
    """What replication needs of a log directory; `log.directory.LogDirectory` is one."""

    def create(self, topic_partition: TopicPartition, topic_id: TopicId, config: LogConfig) -> Log:
        """Makes and opens an empty log."""

    def set_aside(self, topic_partition: TopicPartition) -> None:
        """Takes a log out of service and keeps its directory as a stray."""

    def forget_renamed(self) -> None:
        """Takes logs that are gone out of the checkpoints."""

    def on_renames_forgotten(self, subject: RenamesForgotten) -> None:
        """The checkpoints without them are durable."""

    def clear_renamed(self) -> int:
        """Deletes what may be deleted, or lets it be; returns how many directories."""

    def checkpoint_high_watermarks(self) -> None:
        """Emits the write of `replication-offset-checkpoint`."""

    def checkpoint_recovery_points(self, subject: Hashable | None = None) -> None:
        """Emits the write of `recovery-point-offset-checkpoint`."""

    def checkpoint_log_start_offsets(self, subject: Hashable | None = None) -> None:
        """Emits the write of `log-start-offset-checkpoint`."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the package that a role change touches."""

    hosted: Hosted
    produce: ProducePath
    fetch: FetchPath
    delete: DeletePath
    fetchers: Fetchers
    isr_updates: IsrUpdates
    changed: ChangedPartitions
    outbox: Outbox
    quarantine: Quarantine


class Roles:
    """Changes the roles of the replicas hosted here."""

    __slots__ = ("_directory", "_env", "_log_configs", "_parts", "_trace")

    def __init__(self, directory: LogStore, parts: Parts, env: PartitionEnv, trace: Trace) -> None:
        self._directory = directory
        self._parts = parts
        self._env = env
        self._trace = trace
        # Of the newest metadata.
        self._log_configs: LogConfigs = lambda topic: LogConfig()

    # As the metadata demands ------------------------------------------------------------------

    def carry_out(
        self, decisions: Iterable[Drop | Host], log_configs: LogConfigs, now: Instant
    ) -> None:
        """Drops and hosts, in this order."""
        self._log_configs = log_configs
        for decision in list(decisions):
            if isinstance(decision, Drop):
                self._drop(decision.topic_partition, decision.reason)
            else:
                self._host(decision, now)

    def follow_damaged(self, image: MetadataImage, now: Instant) -> None:
        """What new metadata means for damaged logs, beside what `carry_out` makes of it."""
        quarantine = self._parts.quarantine
        try:
            quarantine.follow(image)
            for key, case in list(quarantine.cases.items()):
                partition = image.partition(case.topic_id, key.partition)
                config = self._log_configs(key.topic)
                if partition is not None and quarantine.give_up_records(key, image, config):
                    self._host(Host(key, case.topic_id, partition), now)
        except StorageError as error:
            self._parts.outbox.emit(LogDirFailed(METADATA_PARTITION, str(error)))

    def _host(self, decision: Host, now: Instant) -> None:
        key = decision.topic_partition
        log_configs = self._log_configs
        try:
            if self._parts.quarantine.withholds(
                key, decision.topic_id, decision.image, log_configs(key.topic)
            ):
                return
        except StorageError as error:
            self._parts.outbox.emit(LogDirFailed(key, str(error)))
            return
        partition = self._parts.hosted.partitions.get(key)
        if partition is not None and partition.topic_id != decision.topic_id:
            self._drop(key, DropReason.CREATED_AGAIN)
            partition = None
        if partition is None:
            try:
                partition = Partition(self._open(decision, log_configs), self._env)
            except StorageError as error:
                self._parts.outbox.emit(LogDirFailed(key, str(error)))
                return
            self._parts.hosted.partitions[key] = partition
        objection = partition.objection_to(decision.image)
        if objection is not None:
            self._trace.debug(key, "apply", "ignored", objection)
            return
        try:
            self._change_role(partition, decision, now)
        except (StorageError, LogDamaged) as error:
            self.on_failure(partition, error, now)

    def _open(self, decision: Host, log_configs: LogConfigs) -> Log:
        key, topic_id = decision.topic_partition, decision.topic_id
        config = log_configs(key.topic)
        log = self._directory.logs.get(key)
        if log is not None and log.topic_id == ZERO_TOPIC_ID:
            log.assign_topic_id(topic_id)
        if log is not None and is_damaged_id(log.topic_id, key.topic, self._parts.hosted.image):
            self._trace.event(TopicIdRestored(partition=key))
            log.assign_topic_id(topic_id)
        if log is not None and log.topic_id != topic_id:
            self._trace.event(OldLogDeleted(partition=key))
            self._directory.schedule_delete(key)
            log = None
        if log is None:
            return self._directory.create(key, topic_id, config)
        log.reconfigure(config)
        return log

    def _change_role(self, partition: Partition, decision: Host, now: Instant) -> None:
        image = decision.image
        led = partition.leadership is not None
        if image.leader_epoch < partition.log.latest_epoch:
            # No checksum covers the epoch of a batch; or the metadata was lost, or restored from an
            # old copy: records of a leadership that it does not know. Going on would cut them.
            # The controller gets a report, and decides without this replica.
            self._take_out(partition, _of_later_epoch(partition.log, image.leader_epoch))
            self._host(decision, now)
            return
        self._parts.changed.mark(partition)
        if image.leader == self._env.node_id:
            if partition.become_leader(image, now):
                self._parts.fetchers.stop(partition)
                self._parts.fetch.release(partition)
                self._parts.fetch.release_followers(image.replicas)
            if not partition.is_proposing:
                # Whatever was proposed was proposed for an older version of the partition.
                self._parts.isr_updates.withdraw(partition.topic_partition, partition.topic_id)
            return
        if not partition.become_follower(image):
            return
        self._parts.produce.fail_acks(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._parts.delete.fail(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._parts.fetch.release(partition)
        if led:
            self._parts.isr_updates.withdraw(partition.topic_partition, partition.topic_id)
        if image.leader == NO_LEADER:
            self._parts.fetchers.stop(partition)
        elif self._parts.fetchers.follow(partition):
            self._directory.checkpoint_recovery_points()

    def _drop(self, key: TopicPartition, reason: DropReason) -> None:
        partition = self._parts.hosted.partitions.pop(key)
        log_end = partition.log.log_end_offset
        self._trace.event(ReplicaDropped(partition=key, reason=reason, log_end=log_end))
        self._put_out_of_service(partition, reason, self._parts.hosted.error_of_missing(*key))
        self.schedule_delete(key)

    def schedule_delete(self, key: TopicPartition) -> None:
        """Marks a log that is not hosted for deletion."""
        try:
            self._directory.schedule_delete(key)
        except StorageError as error:
            self._parts.outbox.emit(LogDirFailed(key, str(error)))

    def set_aside(self, key: TopicPartition) -> None:
        """Keeps a log that is not hosted, under a name that no start looks at."""
        try:
            self._directory.set_aside(key)
        except StorageError as error:
            self._parts.outbox.emit(LogDirFailed(key, str(error)))

    def _put_out_of_service(self, partition: Partition, cause: str, code: ErrorCode) -> None:
        led = partition.leadership is not None
        self._parts.produce.fail_acks(partition, code)
        self._parts.delete.fail(partition, code)
        self._parts.fetch.release(partition)
        self._parts.fetchers.stop(partition)
        partition.go_offline(cause)
        self._parts.changed.forget(partition)
        if led:
            self._parts.isr_updates.withdraw(partition.topic_partition, partition.topic_id)

    # As the devices demand --------------------------------------------------------------------

    def on_failure(
        self, partition: Partition, error: StorageError | LogDamaged, now: Instant
    ) -> None:
        """The device failed under a replica, or gave other bytes than were written."""
        if isinstance(error, StorageError):
            self.go_offline(partition, str(error))
            return
        key, image = partition.topic_partition, partition.image
        if partition.offline is not None or self._parts.hosted.partitions.get(key) is not partition:
            return
        assert image is not None, f"{key} is hosted without metadata"
        self._take_out(partition, error)
        self._host(Host(key, partition.topic_id, image), now)

    def _take_out(self, partition: Partition, error: LogDamaged) -> None:
        key = partition.topic_partition
        self._parts.quarantine.take_out(key, partition.topic_id, error)
        del self._parts.hosted.partitions[key]
        self._put_out_of_service(partition, error.message, ErrorCode.KAFKA_STORAGE_ERROR)

    def go_offline(self, partition: Partition, error: str) -> None:
        """The device failed under a replica: it is out of service, and the node is notified."""
        if partition.offline is not None:
            return
        self._trace.event(ReplicaOffline(partition=partition.topic_partition, reason=error))
        self._put_out_of_service(partition, error, ErrorCode.KAFKA_STORAGE_ERROR)
        self._parts.outbox.emit(LogDirFailed(partition.topic_partition, error))


def _of_later_epoch(log: Log, leader_epoch: int) -> LogDamaged:
    """A log with batches of a later leader epoch than there has been."""
    epoch, start = next(entry for entry in log.epochs.entries if entry[0] > leader_epoch)
    base_offset = max(each.base_offset for each in log.segments if each.base_offset <= start)
    return LogDamaged(
        f"leader epoch `{epoch}` at offset `{start}`, the metadata has {leader_epoch}", base_offset
    )

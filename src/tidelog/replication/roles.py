"""Carries out what the metadata and the devices decide: replicas come, change roles, and go.

A role change touches every part of the package, in an order that matters:
1. The partition itself takes its new role, and with it new epochs.
2. Acks and deletions that wait on a leadership that is over are answered.
3. Fetches that wait are answered, because what they wait for may never come here.
4. Fetching stops, or begins at the new leader.

A replica whose device fails goes offline for the rest of the process's life; it leads and follows
no longer, and its log is not touched any more. A failed flush is such a failure too: what it should
have made durable must be taken to be lost, and a later flush that succeeds proves nothing. The same
device has all other logs of its directory, so they go offline with it; a node with other
directories goes on without this one.

A replica whose log is damaged goes to quarantine instead (`quarantine`), and may come back.

A log whose newest leader epoch is above the metadata's is a sign that the metadata was lost or
restored from an old copy. Following such metadata would cut records that were committed; the
replica stays offline and logs why.
"""

from dataclasses import dataclass

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, LogDamaged, StorageError
from tidelog.log.directory import LogDirectory
from tidelog.log.log import Log
from tidelog.model import (
    LOST_DIRECTORY,
    METADATA_PARTITION,
    NO_LEADER,
    ZERO_TOPIC_ID,
    ZERO_UUID,
    TopicPartition,
)
from tidelog.replication.delete_path import DeletePath
from tidelog.replication.events import roles as events
from tidelog.replication.fetch_path import FetchPath
from tidelog.replication.fetchers import Fetchers
from tidelog.replication.hosting import (
    Host,
    has_other_leader,
    is_damaged_id,
    is_unknown_id,
    may_come_back,
)
from tidelog.replication.isr_updates import IsrUpdates
from tidelog.replication.messages import DirectoryOffline, LogDirFailed
from tidelog.replication.partition import Partition
from tidelog.replication.produce_path import ProducePath
from tidelog.replication.quarantine import Quarantine
from tidelog.replication.shared import Env


@dataclass(frozen=True, slots=True)
class Roles:
    """Changes the roles of the replicas hosted here; has all parts that this touches."""

    env: Env
    produce: ProducePath
    fetch: FetchPath
    delete: DeletePath
    fetchers: Fetchers
    isr_updates: IsrUpdates
    quarantine: Quarantine

    # As the metadata demands ------------------------------------------------------------------

    def follow_damaged(self) -> None:
        """What new metadata means for damaged logs, beside what `host` makes of it."""
        hosted, quarantine = self.env.hosted, self.quarantine
        try:
            quarantine.follow(hosted.image)
            for key in list(quarantine.cases):
                quarantine.give_up_records(key, hosted.image, hosted.log_configs(key.topic))
        except StorageError as error:
            self._on_directory_error(METADATA_PARTITION, error)

    def _on_directory_error(self, key: TopicPartition, error: StorageError) -> None:
        """Something that was done to a directory failed under a log that is not in service."""
        directories = self.env.directories
        directory = directories.of(key)
        if directory is not None and not directories.has_failed:
            directories.fail(directory, str(error))
        if not self.lose_directories():
            self.env.outbox.emit(LogDirFailed(key, str(error)))

    def host(self, decision: Host, now: Instant) -> None:
        """Opens or makes the log of a replica, and gives the replica its role."""
        key, _topic_id, image = decision
        partition = self.env.hosted.partitions.get(key)
        try:
            if partition is not None and self._is_placed_as_before(partition, decision):
                self._reconfigure(partition)
            else:
                partition = self._place(decision)
        except StorageError as error:
            self._on_directory_error(key, error)
            return
        if partition is None or partition.offline is not None:
            return
        objection = partition.objection_to(image)
        if objection is not None:
            self.env.trace.debug(key, "apply", "ignored", objection)
            return
        try:
            self._change_role(partition, decision, now)
        except (StorageError, LogDamaged) as error:
            self.on_failure(partition, error, now)

    def maybe_follow_isr(self, decision: Host) -> bool:
        """Lets a follower of which nothing but the ISR has changed follow the metadata; returns
        whether it is such a one. Its ISR means nothing to it before it leads."""
        key, _, image = decision
        hosted = self.env.hosted
        partition = hosted.partitions.get(key)
        return (
            partition is not None
            and partition.image is not image
            and self._is_placed_as_before(partition, decision)
            and partition.log.latest_epoch <= image.leader_epoch
            and partition.log.config == hosted.log_configs(key.topic)
            and partition.maybe_follow_isr(image)
        )

    def _is_placed_as_before(self, partition: Partition, decision: Host) -> bool:
        """Whether nothing has changed that decides which log a replica has and where it is. With
        several directories a move may have ended since."""
        key, topic_id, image = decision
        former = partition.image
        return (
            former is not None
            and partition.offline is None
            and partition.topic_id == topic_id
            and former.directories == image.directories
            and former.replicas == image.replicas
            and key not in self.quarantine.reports
            and len(self.env.directories.hosting) == 1
        )

    def _place(self, decision: Host) -> Partition | None:
        """The replica with its log, opened or made where there is none; `None` where the log is
        damaged or out of reach. Raises `StorageError`."""
        key, topic_id, image = decision
        hosted = self.env.hosted
        self._settle(decision)
        if self.quarantine.withholds(key, topic_id, image, hosted.log_configs(key.topic)):
            return None
        partition = hosted.partitions.get(key)
        if partition is not None and partition.topic_id != topic_id:
            self.drop(key, events.DropReason.CREATED_AGAIN)
            partition = None
        if partition is None and (log := self._open(decision)) is not None:
            partition = hosted.partitions[key] = Partition(log, self.env)
        if partition is not None and partition.offline is None:
            self._reconfigure(partition)
            self.quarantine.reports.compare(key, topic_id, image)
        elif partition is not None and self.env.directories.of(key) is None:
            # A report may have arrived after its directory failed.
            self._report_loss(decision)
        return partition

    def _settle(self, decision: Host) -> None:
        """Keeps one of several logs that a start may have found of a replica."""
        key, topic_id, image = decision
        said = image.directory_of(self.env.node_id)
        if key not in self.env.hosted.partitions:
            for directory in self.env.directories.settle(key, topic_id, said):
                self.env.trace.event(events.CopySetAside(partition=key, root=directory.disk.root))

    def _reconfigure(self, partition: Partition) -> None:
        """Takes the newest configuration over, before the ISR that was decided on it
        (`ConfigBeforeIsr`, see `metadata_changes`)."""
        config = self.env.hosted.log_configs(partition.topic_partition.topic)
        if config != partition.log.config:
            partition.log.reconfigure(config)
            self.env.changed.mark(partition)
            self.env.changed.reconfigured[partition] = None

    def _open(self, decision: Host) -> Log | None:
        """`None` when the log may be in a directory that is offline."""
        key, topic_id, image = decision
        directories, hosted = self.env.directories, self.env.hosted
        config = hosted.log_configs(key.topic)
        log = directories.logs.get(key)
        if log is not None and self._may_be_of_former_topic(log, decision):
            self.env.trace.event(events.UnknownLogSetAside(partition=key))
            directories.set_aside(key)
            log = None
        if log is not None and log.topic_id == ZERO_TOPIC_ID:
            log.assign_topic_id(topic_id)
        if log is not None and is_damaged_id(log.topic_id, key.topic, hosted.image):
            self.env.trace.event(events.TopicIdRestored(partition=key))
            log.assign_topic_id(topic_id)
        if log is not None and log.topic_id != topic_id:
            self.env.trace.event(events.OldLogDeleted(partition=key))
            directories.schedule_delete(key)
            log = None
        if self._is_out_of_reach(decision):
            self.env.trace.event(events.ReplicaOutOfReach(partition=key))
            return None
        if log is None:
            return directories.create(key, topic_id, config, image.directory_of(self.env.node_id))
        log.reconfigure(config)
        return log

    def _is_out_of_reach(self, decision: Host) -> bool:
        """Whether the replica's log may be in a directory that is offline: then none takes its
        place, and none that a move has left here. Reports the replica as lost where the controller
        counts on it."""
        key, _, image = decision
        directories, said = self.env.directories, image.directory_of(self.env.node_id)
        is_awaited = bool(directories.offline) and may_come_back(image, self.env.node_id)
        if key in directories.logs:
            # Its place stays in the metadata: a report of this one would make it the replica.
            return is_awaited and directories.may_be_offline(said)
        if not is_awaited and not directories.has_lost_original(key, said):
            return directories.place_of(said) is None
        self._report_loss(decision)
        return True

    def _report_loss(self, decision: Host) -> None:
        """A replica cannot be reached. Reports it if it is counted among the logs of a directory
        that is in service, or of none."""
        key, topic_id, image = decision
        said = image.directory_of(self.env.node_id)
        if said != LOST_DIRECTORY and not self.env.directories.may_be_offline(said):
            self.quarantine.reports.report(key, topic_id, LOST_DIRECTORY)

    def _may_be_of_former_topic(self, log: Log, decision: Host) -> bool:
        """Whether nothing shows whose records a log has, and a leader can send the right ones."""
        _, topic_id, image = decision
        is_unknown = is_unknown_id(log.topic_id, topic_id, self.env.hosted.image)
        return is_unknown and log.log_end_offset > 0 and has_other_leader(image, self.env.node_id)

    def _change_role(self, partition: Partition, decision: Host, now: Instant) -> None:
        image = decision.image
        led = partition.leadership is not None
        if image.leader_epoch < partition.log.latest_epoch:
            # No checksum covers the epoch of a batch; or the metadata was lost, or restored from an
            # old copy: records of a leadership that it does not know. Going on would cut them.
            # The controller gets a report, and decides without this replica.
            self._take_out(partition, _of_later_epoch(partition.log, image.leader_epoch))
            self.host(decision, now)
            return
        if image.leader == self.env.node_id:
            replicas, in_sync = partition.replicas, partition.maximal_isr
            begins = partition.become_leader(image, now)
            # What a replica that has left reads next may let it join again.
            all_stay = image.replicas == replicas and in_sync <= partition.maximal_isr
            self.env.changed.mark(partition, readable=begins or not all_stay)
            if begins:
                self.fetchers.stop(partition)
                self.fetch.release(partition)
                self.fetch.release_followers(image.replicas)
            if not partition.is_proposing:
                # Whatever was proposed was proposed for an older version of the partition.
                self.isr_updates.withdraw(partition.topic_partition, partition.topic_id)
            return
        self.env.changed.mark(partition)
        if not partition.become_follower(image):
            return
        self.produce.fail_acks(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.delete.fail(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.fetch.release(partition)
        if led:
            self.isr_updates.withdraw(partition.topic_partition, partition.topic_id)
        if image.leader == NO_LEADER:
            self.fetchers.stop(partition)
        else:
            self.fetchers.follow(partition)

    def drop(self, key: TopicPartition, reason: events.DropReason) -> None:
        """Takes a replica out of service and schedules the deletion of its log."""
        hosted = self.env.hosted
        partition = hosted.partitions.pop(key)
        log_end = partition.log.log_end_offset
        self.env.trace.event(events.ReplicaDropped(partition=key, reason=reason, log_end=log_end))
        self._put_out_of_service(partition, reason, hosted.error_of_missing(*key))
        try:
            self.env.directories.schedule_delete(key)
        except StorageError as error:
            self._on_directory_error(key, error)

    def set_aside(self, key: TopicPartition) -> None:
        """Keeps a log that is not hosted, under a name that no start looks at."""
        try:
            self.env.directories.set_aside(key)
        except StorageError as error:
            self._on_directory_error(key, error)

    def _put_out_of_service(self, partition: Partition, cause: str, code: ErrorCode) -> None:
        led = partition.leadership is not None
        self.produce.fail_acks(partition, code)
        self.delete.fail(partition, code)
        self.fetch.release(partition)
        self.fetchers.stop(partition)
        partition.go_offline(cause)
        self.env.changed.forget(partition)
        if led:
            self.isr_updates.withdraw(partition.topic_partition, partition.topic_id)

    # As the devices demand --------------------------------------------------------------------

    def on_failure(
        self, partition: Partition, error: StorageError | LogDamaged, now: Instant
    ) -> None:
        """The device failed under a replica, or gave other bytes than were written."""
        if isinstance(error, StorageError):
            self.go_offline(partition, str(error))
            return
        key, image = partition.topic_partition, partition.image
        if partition.offline is not None or self.env.hosted.partitions.get(key) is not partition:
            return
        assert image is not None, f"{key} is hosted without metadata"
        self._take_out(partition, error)
        self.host(Host(key, partition.topic_id, image), now)

    def _take_out(self, partition: Partition, error: LogDamaged) -> None:
        key = partition.topic_partition
        self.quarantine.take_out(key, partition.topic_id, error)
        del self.env.hosted.partitions[key]
        self._put_out_of_service(partition, error.message, ErrorCode.KAFKA_STORAGE_ERROR)

    def go_offline(self, partition: Partition, error: str) -> None:
        """The device failed under a replica: it is out of service, and the node is notified."""
        if partition.offline is not None:
            return
        self.env.trace.event(
            events.ReplicaOffline(partition=partition.topic_partition, reason=error)
        )
        self._put_out_of_service(partition, error, ErrorCode.KAFKA_STORAGE_ERROR)
        directories = self.env.directories
        directory = directories.of(partition.topic_partition)
        # In none: its directory has gone offline for something else in it, in this turn.
        if directory is not None and not directories.fail(directory, error):
            self.env.outbox.emit(LogDirFailed(partition.topic_partition, error))
        self.lose_directories()

    def lose_directories(self) -> bool:
        """Takes the replicas out of service whose directories have gone offline; returns whether
        there are such directories. A replica of which the metadata does not know yet that it was
        there is reported as lost: the controller does not count it among those of the directory."""
        failed = self.env.directories.take_failed()
        for directory, error in failed:
            self.quarantine.abandon((*directory.damaged, *directory.logs))
            for key in directory.logs:
                partition = self.env.hosted.partitions.get(key)
                if partition is not None:
                    self._lose_replica(partition, directory)
            root = directory.disk.root
            self.env.outbox.emit(DirectoryOffline(directory.directory_id, root, error))
        return bool(failed)

    def _lose_replica(self, partition: Partition, directory: LogDirectory) -> None:
        key, image = partition.topic_partition, partition.image
        if partition.offline is None:
            error = f"its log directory `{directory.disk.root}` is offline"
            self.env.trace.event(events.ReplicaOffline(partition=key, reason=error))
            self._put_out_of_service(partition, error, ErrorCode.KAFKA_STORAGE_ERROR)
        said = ZERO_UUID if image is None else image.directory_of(self.env.node_id)
        if said != directory.directory_id:
            self.quarantine.reports.report(key, partition.topic_id, LOST_DIRECTORY)
        else:
            # That its copy is complete in another one, if it moves.
            self.quarantine.reports.forget(key)


def _of_later_epoch(log: Log, leader_epoch: int) -> LogDamaged:
    """A log with batches of a later leader epoch than there has been."""
    epoch, start = next(entry for entry in log.epochs.entries if entry[0] > leader_epoch)
    base_offset = max(each.base_offset for each in log.segments if each.base_offset <= start)
    return LogDamaged(
        f"leader epoch `{epoch}` at offset `{start}`, the metadata has {leader_epoch}", base_offset
    )

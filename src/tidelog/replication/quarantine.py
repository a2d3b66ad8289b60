"""Replicas whose logs are damaged: out of service, reported, repaired from the leader.

A log is damaged when its files do not hold what was written and was durable (`log.loading`,
`log.segment`). Serving it would spread the damage; cutting it would be worse, because the cluster
counts on this replica: it may be in the ISR or in the ELR, and be elected with the shorter log. So
the order is

1. **Out of service.** Requests for the partition are answered with KAFKA_STORAGE_ERROR. No file
   changes.
2. **Reported.** The controller gets a report that the replica is LOST (AssignReplicasToDirs,
   KIP-858). It takes it out of ISR and ELR and elects another replica, in one record. A broker that
   finds damage at its start stays fenced until this is done, lest it be elected meanwhile.
3. **Repaired**, once the metadata has LOST and another broker as leader: that leader was elected
   without this replica, so it has all that is committed. The bad segment and all behind it are
   removed, what lies below is kept, the rest is fetched. Prefix and leader are compared as always.
   Of a compacted log nothing is kept: a tombstone behind the cut may be gone from the leader, and
   what it had deleted below would be back.
   A log may have thousands of segments, so each turn removes a few files, when no replica waits to
   lead or follow (`metadata_changes`). A repair that has begun goes on to its end, whatever becomes
   of that leader.
4. **Back.** The controller gets a report that the replica has a directory again. It lags, and joins
   the ISR when it has caught up.

If there is no leader, this was the last replica that had the records (P6). Nothing is repaired: the
partition stays offline and logs it, until an intact replica returns; or the operator has put intact
files back and restarts the node; or the topic allows unclean elections, which means that what is
left is better than nothing.

The mark LOST is in the metadata, so it outlives a restart in the middle of all this. A node that
finds its own replica LOST reads the whole log before it believes it again, some of it a turn; until
then the replica is not hosted. Where the log is still damaged, it reads what the repair has left:
an earlier repair may have been interrupted, and then a start knows of the end that it had removed,
and not of what was bad below.

Invariants
- `DamagedNotServed`: a partition is hosted or in quarantine, never both.
- `LostBeforeCut`: a damaged log is cut only when the metadata marks the replica as lost.

Source: KIP-858; "Protocol-Aware Recovery for Consensus-Based Storage" (FAST '18); Kafka marks whole
directories and leaves the repair to the operator.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final

from tidelog.config import LogConfig
from tidelog.errors import LogDamaged
from tidelog.log.log import Log
from tidelog.log.pieces import Pieces
from tidelog.log.repair import Damage
from tidelog.metadata.image import MetadataImage, PartitionImage
from tidelog.model import LOST_DIRECTORY, NO_LEADER, TopicId, TopicPartition
from tidelog.replication.directory_reports import DirectoryReports
from tidelog.replication.events import damage as events
from tidelog.replication.hosting import is_damaged_id, is_unknown_id
from tidelog.replication.shared import Env

UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"


@dataclass(slots=True)
class Case:
    """One damaged log that the metadata places here."""

    topic_id: TopicId
    cause: str
    reported: bool = False
    """The metadata marks the replica as lost."""
    is_former: bool = False
    """A former process has reported it, and may have known of other damage."""
    stuck: bool = False
    """It was logged that no replica can repair it."""
    repair: Pieces[Log] | None = None
    """What is left of its repair, once that has begun."""
    reason: events.RepairReason = events.RepairReason.LEADER_KNOWN
    """Why it was begun."""


class Quarantine:
    """All damaged logs of one broker."""

    __slots__ = ("_directories", "_env", "_readings", "cases", "reports")

    def __init__(self, env: Env) -> None:
        self._env = env
        self._directories = env.directories
        # Damaged logs out of service, by partition.
        self.cases: dict[TopicPartition, Case] = {}
        # Logs that a former process has reported, with what is left to read of them.
        self._readings: dict[TopicPartition, tuple[Log, Pieces[None]]] = {}
        # What the controller is to know of where replicas are.
        self.reports = DirectoryReports(env)

    @property
    def is_reporting(self) -> bool:
        """Whether the controller still counts on a damaged log: then this broker must not be
        unfenced."""
        return bool(self.cases) and any(not case.reported for case in self.cases.values())

    def take_out(self, key: TopicPartition, topic_id: TopicId, error: LogDamaged) -> Case:
        """Damage was met in a log that is in service here."""
        self._directories.quarantine(key, error)
        return self.open_case(key, topic_id, error.message)

    def open_case(self, key: TopicPartition, topic_id: TopicId, cause: str) -> Case:
        """Keeps a damaged log out of service from now on."""
        case = self.cases[key] = Case(topic_id, cause)
        bad_from = self._directories.damaged[key].base_offset
        self._env.trace.event(
            events.LogFoundDamaged(partition=key, reason=cause, bad_from=bad_from)
        )
        return case

    # As the metadata demands -------------------------------------------------------------------

    def withholds(
        self, key: TopicPartition, topic_id: TopicId, partition: PartitionImage, config: LogConfig
    ) -> bool:
        """Whether the replica must not be hosted as this metadata demands. What can be repaired by
        now is, and is then hosted. Raises `StorageError`."""
        directory_id = partition.directory_of(self._env.node_id)
        self.reports.on_metadata(key, topic_id, directory_id)
        if self._must_read(key, topic_id, partition):
            return True
        case = self._case_of(key, topic_id, is_former=directory_id == LOST_DIRECTORY)
        if case is None:
            return False
        if case.repair is not None:
            return not self._repair(key, topic_id, case, partition.leader)
        if directory_id != LOST_DIRECTORY:
            self.reports.report(key, topic_id, LOST_DIRECTORY)
            return True
        if not case.reported:
            case.reported = True
            self._env.trace.event(
                events.LogReportedLost(
                    partition=key,
                    leader=partition.leader,
                    leader_epoch=partition.leader_epoch,
                    isr=partition.isr,
                    elr=partition.eligible_leaders,
                )
            )
        if partition.leader in (NO_LEADER, self._env.node_id):
            self.report_stuck(key, case)
            return True
        self._begin_repair(key, topic_id, config, events.RepairReason.LEADER_KNOWN)
        return not self._repair(key, topic_id, case, partition.leader)

    def _case_of(self, key: TopicPartition, topic_id: TopicId, *, is_former: bool) -> Case | None:
        case = self.cases.get(key)
        damage = self._directories.damaged.get(key)
        image = self._env.hosted.image
        if (
            damage is not None
            and damage.is_of_another_topic(topic_id)
            and not is_damaged_id(damage.topic_id, key.topic, image)
        ):
            self.delete_case(key, events.DamagedLogReason.OTHER_TOPIC)
            return None
        if damage is None or (case is not None and case.topic_id == topic_id):
            return case
        case = self.open_case(key, topic_id, damage.cause)
        case.is_former = is_former
        return case

    def _must_read(self, key: TopicPartition, topic_id: TopicId, partition: PartitionImage) -> bool:
        """Whether a former process has reported this log and it is not known yet if it is whole by
        now. Reads of it what this turn may."""
        reading = self._readings.pop(key, None)
        log = self._directories.logs.get(key)
        if log is None or key in self.reports or not partition.has_lost(self._env.node_id):
            return False
        if key in self._env.hosted.partitions:
            # In service in this process: what was reported has been repaired since.
            return False
        if reading is None or reading[0] is not log:
            reading = (log, log.verified())
        if self.read_lost_log(key, topic_id, *reading):
            return False
        self._readings[key] = reading
        return True

    def read_lost_log(
        self, key: TopicPartition, topic_id: TopicId, log: Log, rest: Pieces[None]
    ) -> bool:
        """Reads on until the work of this turn is spent; returns whether that was all."""
        try:
            while not self._env.work.is_spent:
                self._env.work.spend(next(rest))
        except StopIteration:
            start, end = log.log_start_offset, log.log_end_offset
            self._env.trace.event(events.LostLogSound(partition=key, log_start=start, log_end=end))
            self._report_place(key, topic_id)
        except LogDamaged as error:
            self.take_out(key, topic_id, error).reported = True
        else:
            return False
        return True

    def _report_place(self, key: TopicPartition, topic_id: TopicId) -> None:
        directory = self._directories.of(key)
        assert directory is not None, f"{key} has no log"
        self.reports.report(key, topic_id, directory.directory_id)

    def report_stuck(self, key: TopicPartition, case: Case) -> None:
        """Logs, once, that an operator has to decide."""
        if case.stuck:
            return
        case.stuck = True
        hint = (
            "start the brokers of the other replicas; or put an intact copy of the "
            "partition's directory back and restart this node; or give up what is missing with "
            f"{UNCLEAN_ELECTION}=true on the topic"
        )
        self._env.trace.event(events.DamagedLogStuck(partition=key, cause=case.cause, hint=hint))

    @property
    def under_way(self) -> TopicPartition | None:
        """A log of which a turn has repaired or read only a part; `None` where there is none."""
        repairs = (key for key, case in self.cases.items() if case.repair is not None)
        return next(chain(repairs, self._readings), None)

    def _begin_repair(
        self, key: TopicPartition, topic_id: TopicId, config: LogConfig, reason: events.RepairReason
    ) -> None:
        case, damage = self.cases[key], self._directories.damaged[key]
        is_unknown = is_unknown_id(damage.topic_id, topic_id, self._env.hosted.image)
        has_gaps = "compact" in config.cleanup_policy or damage.checkpoints.cleaned_to >= 0
        if (is_unknown or has_gaps) and reason is events.RepairReason.LEADER_KNOWN:
            self._directories.doubt_all(key)
        case.repair, case.reason = self._directories.repaired(key, topic_id, config), reason

    def _repair(self, key: TopicPartition, topic_id: TopicId, case: Case, leader: int) -> bool:
        """Removes the next files of what is bad, until the work of this turn is spent; returns
        whether the rest may be hosted. Raises `StorageError`."""
        damage, repair, case.repair = self._directories.damaged[key], case.repair, None
        assert repair is not None, f"the repair of {key} has not begun"
        try:
            while not self._env.work.is_spent:
                self._env.work.spend(next(repair))
        except StopIteration as end:
            self._end_repair(key, topic_id, damage, end.value, leader)
            return key not in self._readings
        case.repair = repair
        return False

    def _end_repair(
        self, key: TopicPartition, topic_id: TopicId, damage: Damage, log: Log, leader: int
    ) -> None:
        case = self.cases.pop(key)
        if case.is_former:
            self._readings[key] = (log, log.verified())
        else:
            self._report_place(key, topic_id)
        self._env.trace.event(
            events.DamagedLogCut(
                partition=key,
                reason=case.reason,
                leader=leader,
                bad_from=damage.base_offset,
                was_durable_to=damage.checkpoints.recovery_point,
                log_start=log.log_start_offset,
                log_end=log.log_end_offset,
            )
        )

    def follow(self, image: MetadataImage) -> None:
        """Forgets what the metadata does not place here any more. Raises `StorageError`."""
        for key in list(self.cases):
            partition = image.partition(self.cases[key].topic_id, key.partition)
            if partition is None or self._env.node_id not in partition.replicas:
                self.delete_case(key, events.DamagedLogReason.NOT_PLACED)
        for key, (log, _) in list(self._readings.items()):
            partition = image.partition(log.topic_id, key.partition)
            if partition is None or not partition.has_lost(self._env.node_id):
                del self._readings[key]
        self.reports.follow(image)

    def delete_case(self, key: TopicPartition, reason: events.DamagedLogReason) -> None:
        """Deletes a damaged log that is of no use here. Raises `StorageError`."""
        self._env.trace.event(events.DamagedLogDeleted(partition=key, reason=reason))
        case = self.cases.pop(key, None)
        if case is not None and case.repair is not None:
            case.repair.close()
        self.reports.forget(key)
        self._directories.schedule_delete(key)

    def give_up_records(self, key: TopicPartition, image: MetadataImage, config: LogConfig) -> None:
        """Begins to repair a log that no other replica has, if the topic prefers what is left to
        nothing. It may be stuck no longer: what repairs it then is another replica's log."""
        case, node_id = self.cases[key], self._env.node_id
        partition = image.partition(case.topic_id, key.partition)
        if partition is None or not partition.has_lost(node_id):
            return
        is_stuck = case.stuck and partition.leader in (NO_LEADER, node_id)
        if is_stuck and case.repair is None and _allows_unclean(image, key.topic):
            reason = events.RepairReason.RECORDS_GIVEN_UP
            self._begin_repair(key, case.topic_id, config, reason)

    def abandon(self, keys: Iterable[TopicPartition]) -> None:
        """The directory of these logs is offline: there is nothing to repair or read any more."""
        for key in keys:
            self.cases.pop(key, None)
            self._readings.pop(key, None)

    def check(self) -> None:
        """Asserts what must hold between two events."""
        for key in self.cases:
            assert key in self._directories.damaged, f"DamagedNotServed: {key}"
            assert key not in self._directories.logs, f"DamagedNotServed: {key}"


def _allows_unclean(image: MetadataImage, topic: str) -> bool:
    for configs in (image.topic_configs(topic), image.broker_configs(None)):
        value = configs.get(UNCLEAN_ELECTION)
        if value is not None:
            return value.strip().lower() == "true"
    return False

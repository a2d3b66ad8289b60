"""Where replicas lie, that one is lost, and that a log directory is: what brokers report of them.

A broker with several log directories chooses one for a new replica, and reports it here
(AssignReplicasToDirs). When a directory fails, its heartbeats name it. Then the replicas that the
metadata has there leave all ISRs, others are elected, and last the directory leaves the broker's
registration. From then on no replica there is elected, until the broker registers with the
directory again: a replica leads only if its directory is registered (`elections.py`).

A replica that is reported in another directory, while its former one is not registered any more, is
a log that was begun anew. It is treated as one that was lost, below, but stays in the ISR if it is
alone there: no other replica has the records, and an operator took the disk away.

A broker that finds a replica's log damaged reports the replica as LOST. From then on the controller
does not count on it: it leaves ISR and ELR, and if it led, another is elected, all in one record.
The ELR too, though Kafka leaves it there: the sender is about to cut its log, and a member of the
ELR may be elected without being asked what it has. Was it the last that had the records, then the
partition has no leader, and stays so until an operator decides.

When the broker has a log again, however short, it reports the id of its directory. It is then
a replica as any other that lags. *The leader epoch is bumped with it.* Otherwise:
1. The follower fetches at 100. The fetch is held up on its way.
2. It finds damage, is LOST, cuts its log to 0, and has a directory again.
3. The leader learns all this, then the fetch of 1 arrives: a follower at 100, which may join the
   ISR.
4. The leader dies, and the follower is elected with an empty log.
The new epoch fences the fetch of 1.

Invariant: LostNeverLeads (`metadata/invariants.py`), with `elections.py` and the check of proposals
in `isr_proposals.py`.

A directory that the broker has not registered counts as lost.

Source: KIP-858; Kafka's replication control.
"""

from collections.abc import Container
from dataclasses import replace

from tidelog.controller.assignments import without
from tidelog.controller.elections import PartitionChange, PartitionTarget
from tidelog.controller.events import Cause, CauseKind, DirectoriesOffline, DirectoryAssigned
from tidelog.controller.messages import (
    AssignedReplica,
    AssignReplicas,
    AssignReplicasResult,
    BrokerHeartbeatResult,
    ReplicaDirectory,
)
from tidelog.controller.partitions import change_partition, decide_broker_left, rules_of
from tidelog.controller.records import broker_change_record, partition_change_record
from tidelog.controller.slices import Slices, a_slice, in_slices
from tidelog.controller.view import ControllerDecision, Place, View
from tidelog.errors import ErrorCode
from tidelog.metadata.image import BrokerImage
from tidelog.metadata.records import LEADER_UNCHANGED, MetadataRecord, PartitionChangeRecord
from tidelog.model import LOST_DIRECTORY, ZERO_UUID, Uuid


def decide_assign_replicas(view: View, request: AssignReplicas) -> Slices:
    """Notes where the sender's replicas are, and takes lost ones out of service.

    Raises `ProtocolError(STALE_BROKER_EPOCH)` when the sender is not the registered incarnation.
    """
    results: list[AssignedReplica] = []
    decided: set[tuple[bytes, int]] = set()

    def decide(view: View, assignment: ReplicaDirectory) -> MetadataRecord | None:
        broker = view.check_broker_epoch(request.broker_id, request.broker_epoch)
        found = _find(view, broker, assignment)
        code = found if isinstance(found, ErrorCode) else ErrorCode.NONE
        results.append(AssignedReplica(*assignment, code))
        key = (assignment.topic_id, assignment.partition)
        if isinstance(found, ErrorCode) or key in decided:
            return None
        decided.add(key)
        return _assign(view, broker, found, assignment.directory_id)

    view.check_broker_epoch(request.broker_id, request.broker_epoch)
    _, records, _ = yield from in_slices(view, request.assignments, decide)
    return ControllerDecision(AssignReplicasResult(tuple(results)), records, atomic=False)


def _find(view: View, broker: BrokerImage, assignment: ReplicaDirectory) -> Place | ErrorCode:
    topic = view.image.topics_by_id.get(assignment.topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(assignment.partition)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.node_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return Place(topic, assignment.partition, partition)


def _assign(
    view: View, broker: BrokerImage, place: Place, directory_id: Uuid
) -> PartitionChangeRecord | None:
    broker_id, before = broker.node_id, place.partition
    if directory_id not in (ZERO_UUID, *broker.log_dirs):
        directory_id = LOST_DIRECTORY
    if before.directory_of(broker_id) == directory_id:
        return None
    directories = tuple(
        directory_id if replica == broker_id else before.directory_of(replica)
        for replica in before.replicas
    )
    lost = directory_id == LOST_DIRECTORY
    begun_anew = not broker.has_directory(before.directory_of(broker_id))
    unclean = (broker_id,) if lost or begun_anew else ()
    isr = without(before.isr, unclean) or (() if lost else before.isr)
    target = PartitionTarget(isr, before.recovering, unclean)
    rules = rules_of(view, place.topic, view.is_active)
    cause = Cause(CauseKind.LOST_LOG if lost else CauseKind.HAS_LOG, broker_id)
    view.trace.event(DirectoryAssigned(partition=place.topic_partition, cause=cause))
    changed = place._replace(partition=replace(before, directories=directories))
    record = change_partition(view, changed, target, rules, cause)
    if record is None:
        record = partition_change_record(
            place.topic.topic_id, place.number, PartitionChange(), directories
        )
    if record.directories is None:
        record = replace(record, directories=directories)
    if begun_anew and record.leader == LEADER_UNCHANGED:
        # Fences what the replica sent before it lost its log.
        record = replace(record, leader=before.leader)
    return record


def decide_directories_offline(
    view: View, broker: BrokerImage, offline: Container[Uuid], response: BrokerHeartbeatResult
) -> Slices:
    """Replicas in these directories of the broker leave all ISRs, and the directories leave its
    registration, last: should the controller fail before, the next heartbeat names them again."""
    broker_id = broker.node_id
    view = yield ControllerDecision(response)
    cause = Cause(CauseKind.DIRECTORY_OFFLINE, broker_id)
    _, records, changed = yield from decide_broker_left(view, broker_id, cause, directories=offline)
    kept = tuple(each for each in broker.log_dirs if each not in offline)
    records.append(broker_change_record(broker, log_dirs=kept))
    view.trace.event(
        DirectoriesOffline(
            node_id=broker_id, broker_epoch=broker.broker_epoch, left=len(kept), partitions=changed
        )
    )
    return a_slice(records)

"""Where replicas lie, and that one is lost: AssignReplicasToDirs decided.

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

Invariant: LostNeverLeads, with `elections.py` and the check of proposals in `partitions.py`.

Left out: several directories on one broker; one that the broker does not have counts as lost.

Source: KIP-858; Kafka's replication control.
"""

from dataclasses import replace

from tidelog.controller.assignments import without
from tidelog.controller.elections import PartitionChange, PartitionTarget
from tidelog.controller.events import Cause, CauseKind, DirectoryAssigned
from tidelog.controller.messages import (
    AssignedReplica,
    AssignReplicas,
    AssignReplicasResult,
    ReplicaDirectory,
)
from tidelog.controller.partitions import change_partition, rules_of
from tidelog.controller.records import partition_change_record
from tidelog.controller.slices import Slices, in_slices
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
    unclean = (broker_id,) if lost else ()
    target = PartitionTarget(without(before.isr, unclean), before.recovering, unclean)
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
    if before.has_lost(broker_id) and record.leader == LEADER_UNCHANGED:
        # Fences what the replica sent before it lost its log.
        record = replace(record, leader=before.leader)
    return record

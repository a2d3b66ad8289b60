"""Moving partitions to other brokers by hand, and telling what is on the move.

`decide_alter_reassignments` begins a reassignment, replaces its target, or cancels it; what each
means for the replicas is in `assignments.py`. Each partition of a request is decided by itself, and
many in slices; Kafka writes those of one request as one batch.

Cancelling must not cost records unasked: when only newcomers are in sync, going back would need
an unclean election, so it is refused unless the topic allows those.

Source: KIP-455, KIP-860; Kafka's replication control.
"""

from tidelog.controller.assignments import Assignment, assignment_of, reassigned, without
from tidelog.controller.elections import PartitionTarget
from tidelog.controller.events import Cause, CauseKind
from tidelog.controller.messages import (
    AlterReassignments,
    AlterReassignmentsResult,
    ListReassignments,
    ListReassignmentsResult,
    Reassignment,
    ReassignmentInProgress,
    ReassignmentResult,
)
from tidelog.controller.partitions import change_partition, rules_of
from tidelog.controller.slices import Slices, in_slices
from tidelog.controller.view import ControllerDecision, Place, View
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.metadata.records import MetadataRecord


def decide_alter_reassignments(view: View, request: AlterReassignments) -> Slices:
    """Decides every partition of the request.

    Raises `ProtocolError(POLICY_VIOLATION)` for more partitions than one request may name.
    """
    view.check_bound(len(request.wishes), "partitions")
    results: list[ReassignmentResult] = []
    decided: set[tuple[str, int]] = set()

    def decide(view: View, wish: Reassignment) -> MetadataRecord | None:
        key, record = (wish.topic, wish.partition), None
        code, message = ErrorCode.NONE, None
        try:
            if key in decided:
                text = "The partition is named twice in the request."
                raise ProtocolError(ErrorCode.INVALID_REQUEST, text)
            decided.add(key)
            record = _decide(view, wish, request.allow_factor_change)
        except ProtocolError as error:
            code, message = error.code, error.message
        results.append(ReassignmentResult(*key, code, message))
        return record

    _, records, _ = yield from in_slices(view, request.wishes, decide)
    response = AlterReassignmentsResult(tuple(results))
    return ControllerDecision(response, records, atomic=False)


def _decide(view: View, wish: Reassignment, allow_factor_change: bool) -> MetadataRecord | None:
    place = view.place(wish.topic, wish.partition)
    partition = place.partition
    if wish.replicas is None:
        assignment, cause = _cancelled(view, place), CauseKind.CANCELLED_BY_HAND
    else:
        origin = assignment_of(partition).origin
        _check_target(view, wish.replicas, None if allow_factor_change else len(origin))
        assignment = reassigned(partition, wish.replicas)
        cause = CauseKind.REASSIGNED_BY_HAND
    target = PartitionTarget(
        tuple(replica for replica in partition.isr if replica in assignment.replicas),
        partition.recovering,
        assignment=assignment,
    )
    rules = rules_of(view, place.topic, view.is_active)
    return change_partition(view, place, target, rules, Cause(cause))


def _cancelled(view: View, place: Place) -> Assignment:
    now = assignment_of(place.partition)
    if not now.in_progress:
        text = "No partition reassignment is in progress."
        raise ProtocolError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, text)
    complete = (*place.partition.isr, *place.partition.eligible_leaders)
    clean = without(complete, now.adding) or not complete
    if not clean and not view.unclean_election_enabled(place.topic.name):
        text = (
            f"Unable to revert the assignment of {place.topic.name}-{place.number}: "
            "it would require an unclean leader election."
        )
        raise ProtocolError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return Assignment(now.origin)


def _check_target(view: View, replicas: tuple[int, ...], factor: int | None) -> None:
    """Raises `ProtocolError` unless the brokers can hold a partition; the replication factor is
    checked when one is given."""
    prefix, complaint = "The manual partition assignment includes", None
    unknown = [replica for replica in replicas if replica not in view.image.brokers]
    if not replicas:
        complaint = "an empty replica list."
    elif unknown:
        complaint = f"broker {unknown[0]}, but no such broker is registered."
    elif len(set(replicas)) != len(replicas):
        complaint = "a broker more than once."
    if complaint is not None:
        raise ProtocolError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{prefix} {complaint}")
    if factor is not None and len(replicas) != factor:
        text = f"The replication factor is changed from {factor} to {len(replicas)}."
        raise ProtocolError(ErrorCode.INVALID_REPLICATION_FACTOR, text)


# What is on the move -----------------------------------------------------------------------


def decide_list_reassignments(view: View, request: ListReassignments) -> ControllerDecision:
    """All partitions of the request that are being reassigned; others are left out."""
    found = []
    for name, number in dict.fromkeys(view.named_partitions(request.partitions)):
        topic = view.image.topic(name)
        partition = None if topic is None else topic.partitions.get(number)
        now = None if partition is None else assignment_of(partition)
        if now is not None and now.in_progress:
            moved = ReassignmentInProgress(name, number, now.replicas, now.adding, now.removing)
            found.append(moved)
    return ControllerDecision(ListReassignmentsResult(tuple(found)))

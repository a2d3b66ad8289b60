"""The events of a changed partition, from one change record.

The state before, the change and the record are known where a change is decided; here they become
events. Nothing is decided here, and nothing is built that no sink wants: one fenced broker may
change thousands of partitions.
"""

from typing import Any

from tidelog.controller import events
from tidelog.controller.elections import Outcome, PartitionChange, effective_min_isr
from tidelog.controller.events import Cause, CauseKind
from tidelog.controller.slices import Slices, a_slice, in_slices
from tidelog.controller.view import Place, View, places_where
from tidelog.env.trace import Level
from tidelog.metadata.image import PartitionImage, TopicImage
from tidelog.metadata.records import PartitionChangeRecord
from tidelog.metadata.topics_delta import merge_partition
from tidelog.model import NO_LEADER, uuid_to_text


def trace_change(
    view: View, place: Place, change: PartitionChange, record: PartitionChangeRecord, cause: Cause
) -> None:
    """The events of one change record: an election has one, an ISR change without an election has
    one, and what an unclean election gives up is a warning of its own."""
    before = place.partition
    if change.outcome.unclean:
        lossy = events.UncleanLeaderElected(
            partition=place.topic_partition,
            reason=change.outcome,
            leader=change.leader,
            instead_of=(*before.isr, *before.eligible_leaders),
            last_leader=before.last_known_eligible_leaders,
            cause=cause,
        )
        view.trace.event(lossy)
    if not (view.trace.enabled(Level.INFO) or view.trace.measures):
        return
    after = merge_partition(before, record)
    outcome = change.outcome if change.leader is not None else None
    measure_change(view, place, after, outcome, str(cause))
    if change.assignment is not None:
        trace_assignment(view, place, after, cause)
    if change.leader is not None:
        elected = events.LeaderLost if change.leader == NO_LEADER else events.LeaderElected
        chosen = elected(
            partition=place.topic_partition,
            reason=change.outcome,
            leader=after.leader,
            was=before.leader,
            leader_epoch=after.leader_epoch,
            isr=after.isr,
            elr=after.eligible_leaders,
            cause=cause,
        )
        view.trace.event(chosen)
    elif change.isr is not None:
        changed = events.IsrChanged(
            partition=place.topic_partition,
            cause=cause,
            isr=after.isr,
            was=before.isr,
            elr=after.eligible_leaders,
            partition_epoch=after.partition_epoch,
        )
        view.trace.event(changed)


def trace_assignment(view: View, place: Place, after: PartitionImage, cause: Cause) -> None:
    """How far a reassignment is after a change."""
    in_progress = after.adding_replicas or after.removing_replicas
    progressed = events.ReassignmentProgressed if in_progress else events.ReassignmentCompleted
    event = progressed(
        partition=place.topic_partition,
        cause=cause,
        replicas=after.replicas,
        was=place.partition.replicas,
        adding=after.adding_replicas,
        removing=after.removing_replicas,
        isr=after.isr,
        leader=after.leader,
    )
    view.trace.event(event)


def measure_change(
    view: View, place: Place, after: PartitionImage, outcome: Outcome | None, cause: str
) -> None:
    """What the partition was and what it becomes, for programs that compute its health."""
    before = place.partition
    if view.trace.measures:
        kept_epoch = after.leader_epoch == before.leader_epoch
        changed = events.PartitionChanged if kept_epoch else events.PartitionElected
        event = changed(
            partition=place.topic_partition,
            old_leader=before.leader,
            old_isr=before.isr,
            reason=outcome,
            cause=cause,
            **_state(view, place.topic, after),
        )
        view.trace.event(event)


def measure_unhealthy(view: View) -> Slices:
    """Reports every partition that is not whole: a new controller's clock begins here. Writes
    nothing."""

    def is_broken(partition: PartitionImage) -> bool:
        return partition.leader == NO_LEADER or len(partition.isr) < len(partition.replicas)

    def report(view: View, chosen: Place) -> None:
        place = view.find(chosen.topic.topic_id, chosen.number)
        if place is not None:
            event = events.PartitionState(
                partition=place.topic_partition,
                cause=str(CauseKind.CONTROLLER_ACTIVATED),
                **_state(view, place.topic, place.partition),
            )
            view.trace.event(event)

    yield from in_slices(view, places_where(view, is_broken), report)
    return a_slice([])


def _state(view: View, topic: TopicImage, partition: PartitionImage) -> dict[str, Any]:
    """Everything about a partition that its health depends on."""
    return {
        "topic_id": uuid_to_text(topic.topic_id),
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "isr": partition.isr,
        "replicas": partition.replicas,
        "eligible_leaders": partition.eligible_leaders,
        "min_isr": effective_min_isr(view.min_isr(topic.name), partition.replicas),
    }

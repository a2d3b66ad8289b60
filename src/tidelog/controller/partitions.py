"""ISR, ELR and leader of existing partitions: what brokers' lives and leaders' wishes change.

Two sources of change. A broker that leaves or returns touches every partition with it in the ISR,
or every partition without a leader (`decide_broker_left`, `decide_broker_returned`,
`decide_unclean_restart`): these give records for `brokers.py` to put beside the broker's own
record. And leaders propose ISR changes (`decide_alter_partition`).

**Validation of a proposal, in this order**, because the code says what the leader shall do next:
unknown topic or partition, an epoch newer than ours (this controller is behind: NOT_CONTROLLER),
an older leader epoch, a sender that does not lead, an older partition epoch, an ISR that cannot
be, and at last replicas that may not join. A replica may join only if it is registered, unfenced,
not leaving, and still the incarnation that the leader saw fetching (KIP-903): a rebooted follower
may have lost what its predecessor had acknowledged.

Invariants: IneligibleNeverJoins (KIP-841), and those of `elections.py`.

An accepted ISR may complete a reassignment. If that takes the sender out of the replicas, it hears
NEW_LEADER_ELECTED: nothing is wrong, the metadata will tell it the rest.

A replica whose log is lost may not join either; `directories.py` says how that is told.

Source: KIP-497, KIP-841, KIP-903, KIP-966; Kafka's replication control.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tidelog.controller.elections import (
    Election,
    ElectionRules,
    PartitionChange,
    PartitionTarget,
    decide_change,
    effective_min_isr,
)
from tidelog.controller.forms import partition_change_record
from tidelog.controller.messages import (
    AlterPartition,
    AlterPartitionResult,
    IsrProposal,
    IsrResult,
)
from tidelog.controller.view import ControllerDecision, View
from tidelog.env.trace import Level
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.metadata.delta import merge_partition
from tidelog.metadata.image import PartitionImage, TopicImage
from tidelog.metadata.records import MetadataRecord, PartitionChangeRecord
from tidelog.model import NO_LEADER, TopicId, uuid_to_text

# Brokers come and go -----------------------------------------------------------------------


class Place(NamedTuple):
    """One partition and where it stands."""

    topic: TopicImage
    number: int
    partition: PartitionImage


def decide_broker_left(view: View, broker_id: int, cause: str) -> list[MetadataRecord]:
    """The broker leaves every ISR and leads nothing any more."""

    def may_lead(replica: int) -> bool:
        return replica != broker_id and view.image.is_active(replica)

    places = places_where(view, lambda partition: broker_id in partition.isr)
    return _change_all(view, places, may_lead, cause, leaving=broker_id)


def decide_broker_returned(view: View, broker_id: int, cause: str) -> list[MetadataRecord]:
    """The broker is alive again: partitions without a leader may have found one."""

    def may_lead(replica: int) -> bool:
        return replica == broker_id or view.image.is_active(replica)

    return _elect_leaderless(view, may_lead, cause)


def decide_leaderless(view: View, cause: str) -> list[MetadataRecord]:
    """Leaders for partitions that could have one: a predecessor may have failed between
    unfencing a broker and the elections that follow."""
    return _elect_leaderless(view, view.image.is_active, cause)


def decide_unclean_restart(view: View, broker_id: int, cause: str) -> list[MetadataRecord]:
    """The broker may have lost its last records: it leaves every ISR and every ELR."""

    def may_lead(replica: int) -> bool:
        return replica != broker_id and view.image.is_active(replica)

    places = places_where(
        view,
        lambda partition: broker_id in partition.isr or broker_id in partition.eligible_leaders,
    )
    return _change_all(view, places, may_lead, cause, leaving=broker_id, unclean=(broker_id,))


def _elect_leaderless(
    view: View, may_lead: Callable[[int], bool], cause: str
) -> list[MetadataRecord]:
    places = places_where(view, lambda partition: partition.leader == NO_LEADER)
    return _change_all(view, places, may_lead, cause)


def places_where(view: View, wanted: Callable[[PartitionImage], bool]) -> Iterator[Place]:
    """The partitions that `wanted` holds for, topic by topic."""
    for topic in view.image.topics_by_id.values():
        for number, partition in topic.partitions.items():
            if wanted(partition):
                yield Place(topic, number, partition)


def _change_all(
    view: View,
    places: Iterable[Place],
    may_lead: Callable[[int], bool],
    cause: str,
    *,
    leaving: int = NO_LEADER,
    unclean: tuple[int, ...] = (),
) -> list[MetadataRecord]:
    records: list[MetadataRecord] = []
    topic_id, rules = None, None
    for place in places:
        if rules is None or place.topic.topic_id != topic_id:
            topic_id, rules = place.topic.topic_id, rules_of(view, place.topic, may_lead)
        partition = place.partition
        isr = tuple(replica for replica in partition.isr if replica != leaving)
        target = PartitionTarget(isr, partition.recovering, unclean)
        record = change_partition(view, place, target, rules, cause)
        if record is not None:
            records.append(record)
    return records


def rules_of(view: View, topic: TopicImage, may_lead: Callable[[int], bool]) -> ElectionRules:
    """The rules for a topic's partitions when nobody asked for a special election."""
    unclean = view.unclean_election_enabled(topic.name)
    return ElectionRules(
        may_lead=may_lead,
        min_isr=view.min_isr(topic.name),
        elr_enabled=view.image.elr_enabled,
        election=Election.UNCLEAN if unclean else Election.ONLINE,
    )


def change_partition(
    view: View, place: Place, target: PartitionTarget, rules: ElectionRules, cause: str
) -> PartitionChangeRecord | None:
    """The record that brings a partition to its target, traced; `None` when nothing changes."""
    change = decide_change(place.partition, target, rules)
    if change.empty:
        return None
    record = _record_of(view, place, change)
    _trace_change(view, place, change, record, cause)
    return record


def _record_of(view: View, place: Place, change: PartitionChange) -> PartitionChangeRecord:
    directories = None
    if change.assignment is not None:
        partition = place.partition
        known = dict(zip(partition.replicas, partition.directories, strict=False))
        directories = tuple(
            known.get(replica) or view.directory_of(replica)
            for replica in change.assignment.replicas
        )
    return partition_change_record(place.topic.topic_id, place.number, change, directories)


def _trace_change(
    view: View, place: Place, change: PartitionChange, record: PartitionChangeRecord, cause: str
) -> None:
    """One line per election; an ISR change without one is told by its cause alone. What an
    unclean election gives up is a warning of its own: nobody shall have to search for it."""
    subject = f"{place.topic.name}-{place.number}"
    if change.outcome.unclean:
        before = place.partition
        view.trace.warn(
            subject,
            "elect",
            "gave up records",
            change.outcome.value,
            leader=change.leader,
            instead_of=(*before.isr, *before.eligible_leaders),
            last_leader=before.last_known_eligible_leaders,
            cause=cause,
        )
    if not (view.trace.enabled(Level.INFO) or view.trace.measures):
        return
    after = merge_partition(place.partition, record)
    reason = change.outcome.value if change.leader is not None else ""
    measure_change(view, place, after, reason=reason, cause=cause)
    if change.assignment is not None:
        _trace_assignment(view, place, after, cause)
    if change.leader is not None:
        view.trace.info(
            subject,
            "elect",
            "leaderless" if change.leader == NO_LEADER else "elected",
            change.outcome.value,
            leader=after.leader,
            was=place.partition.leader,
            leader_epoch=after.leader_epoch,
            isr=after.isr,
            elr=after.eligible_leaders,
            cause=cause,
        )
    elif change.isr is not None:
        view.trace.info(
            subject,
            "change_isr",
            "changed",
            cause,
            isr=after.isr,
            was=place.partition.isr,
            elr=after.eligible_leaders,
            partition_epoch=after.partition_epoch,
        )


def measure_change(
    view: View, place: Place, after: PartitionImage, *, reason: str, cause: str
) -> None:
    """What the partition was and what it becomes, for those who add up its health."""
    trace, before = view.trace, place.partition
    if not trace.measures:
        return
    trace.measure(
        f"{place.topic.name}-{place.number}",
        "isr_change" if after.leader_epoch == before.leader_epoch else "election",
        old_leader=before.leader,
        old_isr=before.isr,
        reason=reason,
        cause=cause,
        **_state(view, place.topic, after),
    )


def _state(view: View, topic: TopicImage, partition: PartitionImage) -> dict[str, object]:
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


def measure_unhealthy(view: View) -> None:
    """Tells of every partition that is not whole: a new controller's clock begins here."""
    if not view.trace.measures:
        return
    broken = places_where(
        view,
        lambda partition: (
            partition.leader == NO_LEADER or len(partition.isr) < len(partition.replicas)
        ),
    )
    for place in broken:
        view.trace.measure(
            f"{place.topic.name}-{place.number}",
            "partition_state",
            cause="controller activated",
            **_state(view, place.topic, place.partition),
        )


def _trace_assignment(view: View, place: Place, after: PartitionImage, cause: str) -> None:
    complete = not (after.adding_replicas or after.removing_replicas)
    view.trace.info(
        f"{place.topic.name}-{place.number}",
        "reassign",
        "complete" if complete else "in progress",
        cause,
        replicas=after.replicas,
        was=place.partition.replicas,
        adding=after.adding_replicas,
        removing=after.removing_replicas,
        isr=after.isr,
        leader=after.leader,
    )


# Leaders propose ---------------------------------------------------------------------------


def decide_alter_partition(view: View, request: AlterPartition) -> ControllerDecision:
    """Decides every proposal of one leader broker.

    Raises `ProtocolError(STALE_BROKER_EPOCH)` when the sender is not the registered incarnation.
    """
    view.check_broker_epoch(request.broker_id, request.broker_epoch)
    records: list[MetadataRecord] = []
    results: list[IsrResult] = []
    decided: set[tuple[TopicId, int]] = set()
    for proposal in request.proposals:
        key = (proposal.topic_id, proposal.partition)
        try:
            if key in decided:
                # It was validated against the partition before the first one.
                raise ProtocolError(ErrorCode.INVALID_REQUEST, "proposed twice in one request")
            place = _find(view, proposal)
            _validate(view, request.broker_id, proposal, place.partition)
            decided.add(key)
            after, record = _accept(view, proposal, place)
            if record is not None:
                records.append(record)
            results.append(_result(proposal, request.broker_id, after))
        except ProtocolError as error:
            results.append(IsrResult(*key, error.code))
            _trace_refusal(view, request.broker_id, proposal, error)
    return ControllerDecision(AlterPartitionResult(tuple(results)), records, atomic=False)


def _find(view: View, proposal: IsrProposal) -> Place:
    topic = view.image.topics_by_id.get(proposal.topic_id)
    if topic is None:
        raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_ID, "unknown topic id")
    partition = topic.partitions.get(proposal.partition)
    if partition is None:
        raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "unknown partition")
    return Place(topic, proposal.partition, partition)


def _validate(view: View, sender: int, proposal: IsrProposal, partition: PartitionImage) -> None:
    """Raises `ProtocolError` with the first code, in the order of the module's docstring."""
    if proposal.leader_epoch > partition.leader_epoch:
        raise ProtocolError(ErrorCode.NOT_CONTROLLER, "leader_epoch is ahead of this controller")
    if proposal.partition_epoch > partition.partition_epoch:
        raise ProtocolError(ErrorCode.NOT_CONTROLLER, "partition_epoch is ahead of this controller")
    if proposal.leader_epoch < partition.leader_epoch:
        raise ProtocolError(ErrorCode.FENCED_LEADER_EPOCH, "stale leader_epoch")
    if sender != partition.leader:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "the sender does not lead")
    if proposal.partition_epoch < partition.partition_epoch:
        raise ProtocolError(ErrorCode.INVALID_UPDATE_VERSION, "stale partition_epoch")
    new_isr = [member.broker_id for member in proposal.new_isr]
    if len(set(new_isr)) != len(new_isr) or not set(new_isr) <= set(partition.replicas):
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "the ISR is no subset of the replicas")
    if partition.leader not in new_isr:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "the ISR lacks its leader")
    if proposal.recovering and len(new_isr) > 1:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "a recovering leader shares its ISR")
    if proposal.recovering and not partition.recovering:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "a recovered leader would recover again")
    for member in proposal.new_isr:
        reason = _ineligible(view, member.broker_id, member.broker_epoch)
        if partition.has_lost(member.broker_id):
            reason = "has lost its log"
        if reason is not None:
            text = f"broker {member.broker_id} {reason}"
            raise ProtocolError(ErrorCode.INELIGIBLE_REPLICA, text)


def _ineligible(view: View, broker_id: int, broker_epoch: int) -> str | None:
    """Why the broker may not be in an ISR; an epoch of -1 is not compared."""
    broker = view.image.brokers.get(broker_id)
    if broker is None:
        return "is not registered"
    if broker.in_controlled_shutdown:
        return "is shutting down"
    if broker.fenced:
        return "is fenced"
    if broker_epoch not in (-1, broker.broker_epoch):
        return f"has epoch {broker.broker_epoch}, not {broker_epoch}"
    return None


def _accept(
    view: View, proposal: IsrProposal, place: Place
) -> tuple[PartitionImage, PartitionChangeRecord | None]:
    """The partition after an accepted proposal, and the record unless nothing changes."""
    new_isr = tuple(member.broker_id for member in proposal.new_isr)
    target = PartitionTarget(new_isr, proposal.recovering)
    before = place.partition
    change = decide_change(before, target, rules_of(view, place.topic, view.image.is_active))
    assert change.leader is None or change.assignment is not None, (
        f"an accepted ISR moved the leader: {before} -> {change}"
    )
    if change.empty:
        return before, None
    record = _record_of(view, place, change)
    after = merge_partition(before, record)
    view.trace.info(
        f"{place.topic.name}-{place.number}",
        "on_alter_partition",
        "accepted",
        isr=after.isr,
        was=before.isr,
        elr=after.eligible_leaders,
        leader=after.leader,
        leader_epoch=after.leader_epoch,
        partition_epoch=after.partition_epoch,
    )
    cause = _proposed_because(before, after)
    if change.assignment is not None:
        cause = "its newcomers are in sync"
        _trace_assignment(view, place, after, cause)
    measure_change(view, place, after, reason="", cause=cause)
    return after, record


def _proposed_because(before: PartitionImage, after: PartitionImage) -> str:
    """Leaders propose for two reasons only."""
    left = ",".join(str(replica) for replica in before.isr if replica not in after.isr)
    joined = ",".join(str(replica) for replica in after.isr if replica not in before.isr)
    found = [f"{left} lagging"] * bool(left) + [f"{joined} caught up"] * bool(joined)
    return f"leader {before.leader} found {' and '.join(found)}"


def _result(proposal: IsrProposal, sender: int, partition: PartitionImage) -> IsrResult:
    if partition.leader != sender:
        # The proposal is accepted and completed a reassignment: the sender is replica no more.
        return IsrResult(proposal.topic_id, proposal.partition, ErrorCode.NEW_LEADER_ELECTED)
    return IsrResult(
        proposal.topic_id,
        proposal.partition,
        ErrorCode.NONE,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        recovering=partition.recovering,
        partition_epoch=partition.partition_epoch,
    )


def _trace_refusal(view: View, sender: int, proposal: IsrProposal, error: ProtocolError) -> None:
    topic = view.image.topics_by_id.get(proposal.topic_id)
    name = proposal.topic_id.hex() if topic is None else topic.name
    view.trace.info(
        f"{name}-{proposal.partition}",
        "on_alter_partition",
        "refused",
        error.message,
        error=error.code.name,
        sender=sender,
        isr=tuple(member.broker_id for member in proposal.new_isr),
        leader_epoch=proposal.leader_epoch,
        partition_epoch=proposal.partition_epoch,
    )

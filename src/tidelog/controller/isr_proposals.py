"""Leaders propose ISR changes: what the controller accepts, and with which code it refuses.

**Validation of a proposal, in this order**, because the code says what the leader shall do next:
unknown topic or partition, an epoch newer than ours (this controller is behind: NOT_CONTROLLER),
an older leader epoch, a sender that does not lead, an older partition epoch, an ISR that cannot
be, and at last replicas that may not join. A replica may join only if it is registered, unfenced,
not leaving, and still the incarnation that the leader saw fetching (KIP-903): a rebooted follower
may have lost what its predecessor had acknowledged. A replica whose log is lost may not join
either; `directories.py` says how the controller learns of it.

Invariant: IneligibleNeverJoins (KIP-841).

An accepted ISR may complete a reassignment. If that takes the sender out of the replicas, its
answer is NEW_LEADER_ELECTED: nothing is wrong, and the metadata brings it the rest.

Source: KIP-497, KIP-841, KIP-903, KIP-966; Kafka's replication control.
"""

from typing import Final

from tidelog.controller import events
from tidelog.controller.elections import PartitionTarget, decide_change
from tidelog.controller.events import Cause, CauseKind, RefusedProposal
from tidelog.controller.messages import AlterPartition, AlterPartitionResult, IsrProposal, IsrResult
from tidelog.controller.partition_events import measure_change, trace_assignment
from tidelog.controller.partitions import record_of, rules_of
from tidelog.controller.slices import Slices, in_slices
from tidelog.controller.view import ControllerDecision, Place, View
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.metadata.image import PartitionImage
from tidelog.metadata.records import MetadataRecord, PartitionChangeRecord
from tidelog.metadata.topics_delta import merge_partition
from tidelog.model import TopicId, TopicPartition

R: Final = RefusedProposal

_CODES: Final = {
    R.TWICE: ErrorCode.INVALID_REQUEST,
    R.UNKNOWN_TOPIC: ErrorCode.UNKNOWN_TOPIC_ID,
    R.UNKNOWN_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    R.LEADER_EPOCH_AHEAD: ErrorCode.NOT_CONTROLLER,
    R.PARTITION_EPOCH_AHEAD: ErrorCode.NOT_CONTROLLER,
    R.STALE_LEADER_EPOCH: ErrorCode.FENCED_LEADER_EPOCH,
    R.NOT_THE_LEADER: ErrorCode.INVALID_REQUEST,
    R.STALE_PARTITION_EPOCH: ErrorCode.INVALID_UPDATE_VERSION,
    R.NOT_REPLICAS: ErrorCode.INVALID_REQUEST,
    R.WITHOUT_LEADER: ErrorCode.INVALID_REQUEST,
    R.RECOVERING_SHARES: ErrorCode.INVALID_REQUEST,
    R.RECOVERING_AGAIN: ErrorCode.INVALID_REQUEST,
    R.INELIGIBLE: ErrorCode.INELIGIBLE_REPLICA,
}


class _Refusal(ProtocolError):
    """One proposal is refused; the others of its request are decided all the same."""

    def __init__(self, reason: RefusedProposal, ineligible: str = "") -> None:
        super().__init__(_CODES[reason], ineligible or str(reason))
        self.reason = reason
        # Which broker may not join and why.
        self.ineligible = ineligible


def decide_alter_partition(view: View, request: AlterPartition) -> Slices:
    """Decides every proposal of one leader broker.

    Raises `ProtocolError(STALE_BROKER_EPOCH)` when the sender is not the registered incarnation.
    """
    results: list[IsrResult] = []
    decided: set[tuple[TopicId, int]] = set()

    def decide(view: View, proposal: IsrProposal) -> MetadataRecord | None:
        # Each time: a later incarnation of the sender does not answer for this one.
        view.check_broker_epoch(request.broker_id, request.broker_epoch)
        result, record = _decide(view, request.broker_id, proposal, decided)
        results.append(result)
        return record

    view.check_broker_epoch(request.broker_id, request.broker_epoch)
    _, records, _ = yield from in_slices(view, request.proposals, decide)
    return ControllerDecision(AlterPartitionResult(tuple(results)), records, atomic=False)


def _decide(
    view: View, sender: int, proposal: IsrProposal, decided: set[tuple[TopicId, int]]
) -> tuple[IsrResult, MetadataRecord | None]:
    key = (proposal.topic_id, proposal.partition)
    try:
        if key in decided:
            # It was validated against the partition before the first one.
            raise _Refusal(R.TWICE)
        place = _find(view, proposal)
        _validate(view, sender, proposal, place.partition)
    except _Refusal as error:
        _trace_refusal(view, sender, proposal, error)
        return IsrResult(*key, error.code), None
    decided.add(key)
    after, record = _accept(view, proposal, place)
    return _result(proposal, sender, after), record


def _find(view: View, proposal: IsrProposal) -> Place:
    topic = view.image.topics_by_id.get(proposal.topic_id)
    if topic is None:
        raise _Refusal(R.UNKNOWN_TOPIC)
    partition = topic.partitions.get(proposal.partition)
    if partition is None:
        raise _Refusal(R.UNKNOWN_PARTITION)
    return Place(topic, proposal.partition, partition)


def _validate(view: View, sender: int, proposal: IsrProposal, partition: PartitionImage) -> None:
    """Raises `_Refusal` for the first reason, in the order of the module's docstring."""
    new_isr = [member.broker_id for member in proposal.new_isr]
    known = len(set(new_isr)) == len(new_isr) and set(new_isr) <= set(partition.replicas)
    for wrong, reason in (
        (proposal.leader_epoch > partition.leader_epoch, R.LEADER_EPOCH_AHEAD),
        (proposal.partition_epoch > partition.partition_epoch, R.PARTITION_EPOCH_AHEAD),
        (proposal.leader_epoch < partition.leader_epoch, R.STALE_LEADER_EPOCH),
        (sender != partition.leader, R.NOT_THE_LEADER),
        (proposal.partition_epoch < partition.partition_epoch, R.STALE_PARTITION_EPOCH),
        (not known, R.NOT_REPLICAS),
        (partition.leader not in new_isr, R.WITHOUT_LEADER),
        (proposal.recovering and len(new_isr) > 1, R.RECOVERING_SHARES),
        (proposal.recovering and not partition.recovering, R.RECOVERING_AGAIN),
    ):
        if wrong:
            raise _Refusal(reason)
    for member in proposal.new_isr:
        fault = _ineligible(view, member.broker_id, member.broker_epoch)
        if fault is None and partition.has_lost(member.broker_id):
            fault = "has lost its log"
        elif fault is None and not view.image.has_directory(partition, member.broker_id):
            fault = "has not registered the log directory of its replica"
        if fault is not None:
            raise _Refusal(R.INELIGIBLE, f"broker {member.broker_id} {fault}")


def _ineligible(view: View, broker_id: int, broker_epoch: int) -> str | None:
    """Why the broker may not be in an ISR; an epoch of -1 is not compared."""
    broker = view.image.brokers.get(broker_id)
    if broker is None:
        return "is not registered"
    if broker.in_controlled_shutdown:
        return "is shutting down"
    if broker.fenced or broker_id in view.departing:
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
    change = decide_change(before, target, rules_of(view, place.topic, view.is_active))
    assert change.leader is None or change.assignment is not None, (
        f"an accepted ISR moved the leader: {before} -> {change}"
    )
    if change.empty:
        return before, None
    record = record_of(view, place, change)
    after = merge_partition(before, record)
    event = events.IsrProposalAccepted(
        partition=place.topic_partition,
        isr=after.isr,
        was=before.isr,
        elr=after.eligible_leaders,
        leader=after.leader,
        leader_epoch=after.leader_epoch,
        partition_epoch=after.partition_epoch,
    )
    view.trace.event(event)
    cause = _proposed_because(before, after)
    if change.assignment is not None:
        completed = Cause(CauseKind.NEWCOMERS_IN_SYNC)
        trace_assignment(view, place, after, completed)
        cause = str(completed)
    measure_change(view, place, after, None, cause)
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


def _trace_refusal(view: View, sender: int, proposal: IsrProposal, refusal: _Refusal) -> None:
    topic = view.image.topics_by_id.get(proposal.topic_id)
    name = proposal.topic_id.hex() if topic is None else topic.name
    event = events.IsrProposalRefused(
        partition=TopicPartition(name, proposal.partition),
        reason=refusal.reason,
        ineligible=refusal.ineligible,
        error=refusal.code,
        sender=sender,
        isr=tuple(member.broker_id for member in proposal.new_isr),
        leader_epoch=proposal.leader_epoch,
        partition_epoch=proposal.partition_epoch,
    )
    view.trace.event(event)

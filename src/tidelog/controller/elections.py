"""Who leads a partition, who is in its ISR and its ELR: one pure decision.

Theory. Clean leaders come from the ISR, because every ISR member has every record below the high
watermark. With eligible leader replicas (KIP-966) a replica that leaves the ISR while the ISR is
below the min ISR stays *eligible*: the high watermark stands still below the min ISR, so the
replica lacks nothing committed. Then the ISR may even run empty, and an ELR member that comes
back is elected cleanly. Only a restart that was not clean takes a replica out of the ELR, since
it may have lost its unflushed tail.

The order of one decision matters: the target ISR is given, the target ELR follows from it, the
election uses both, and an election may change both again. A reassignment that the target ISR
completes is completed before all that (`assignments.py`): no replica that leaves is elected.

- Valid leader: alive, and in the target ISR, or in the target ELR while the target ISR is empty.
- ONLINE keeps a valid leader, else takes the first valid replica in *replica list* order.
- With ISR and ELR empty the last known leader may lead again, uncleanly: it most likely has the
  longest log.
- A replica whose log is lost, or whose log directory is offline (KIP-858), leads under no rule.
- PREFERRED takes the first replica of the list if it is valid, and else goes on like ONLINE.
- UNCLEAN ends with the first replica that is alive.
- An unclean leader alone is the ISR; it must report its recovery (`recovering`).

Invariants: the result's leader is in its ISR or absent; ISR and ELR are disjoint; no replica is
eligible beside an ISR that suffices to commit (*ElrBelowMinIsr*); without ELR the ISR is never
emptied: the last member stays, with no leader, because only it may lead cleanly.

Source: KIP-966, KIP-841; Kafka's partition change rules.
"""

from collections.abc import Callable, Sequence
from enum import Enum, StrEnum

from tidelog.controller.assignments import Assignment, assignment_of, without
from tidelog.env.frozen import frozen
from tidelog.metadata.image import PartitionImage
from tidelog.model import NO_LEADER


class Election(Enum):
    """How far an election may go."""

    ONLINE = "online"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


class Outcome(StrEnum):
    """What a decision did to the leadership; where the leader came from."""

    KEPT = "kept"
    FROM_ISR = "from isr"
    FROM_ELR = "from elr"
    LAST_KNOWN = "last known leader, unclean"
    UNCLEAN = "unclean"
    UNCLEAN_HEIR = "no replica alive, the next leader is unclean"
    LEADERLESS = "no valid leader"

    @property
    def unclean(self) -> bool:
        """Whether the new leader may lack committed records."""
        return self in (Outcome.LAST_KNOWN, Outcome.UNCLEAN, Outcome.UNCLEAN_HEIR)


@frozen
class PartitionTarget:
    """What a partition shall become, before the election."""

    isr: tuple[int, ...]
    recovering: bool
    unclean_restarts: tuple[int, ...] = ()
    """Replicas that may have lost records: they leave the ELR too."""
    assignment: Assignment | None = None
    """`None` leaves the replicas as they are, or completes what is in progress."""


def _has_log(partition: PartitionImage, replica: int) -> bool:
    return not partition.has_lost(replica)


@frozen
class ElectionRules:
    """What a decision must know beside the partition."""

    may_lead: Callable[[int], bool]
    """Whether a broker is alive and allowed to lead."""
    min_isr: int
    """As configured; a partition with fewer replicas needs all of them."""
    elr_enabled: bool
    election: Election = Election.ONLINE
    has_directory: Callable[[PartitionImage, int], bool] = _has_log
    """Whether the log directory of a replica is there."""


@frozen
class PartitionChange:
    """The fields to write; `None` leaves a field as it is. `leader` set means a new leader
    epoch, whatever its value."""

    isr: tuple[int, ...] | None = None
    leader: int | None = None
    eligible_leaders: tuple[int, ...] | None = None
    last_known_eligible_leaders: tuple[int, ...] | None = None
    recovering: bool | None = None
    assignment: Assignment | None = None
    outcome: Outcome = Outcome.KEPT

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        members = (self.isr, self.eligible_leaders, self.last_known_eligible_leaders)
        others = (self.leader, self.recovering, self.assignment)
        return all(field is None for field in (*members, *others))


def effective_min_isr(configured: int, replicas: Sequence[int]) -> int:
    """How many suffice to commit: a partition with fewer replicas than configured needs all."""
    return min(configured, len(replicas))


def decide_change(
    partition: PartitionImage, target: PartitionTarget, rules: ElectionRules
) -> PartitionChange:
    """The change that brings a partition to its target ISR, with an election where needed."""
    now = assignment_of(partition)
    assignment = (target.assignment or now).settled(target.isr)
    replicas = assignment.replicas
    if assignment != now:
        held = {*partition.isr, *partition.eligible_leaders, *target.isr}
        lossy = rules.election is Election.UNCLEAN
        assert lossy or not held or held & set(replicas), (
            f"ReassignmentKeepsIsr: {partition} -> {assignment}"
        )
    isr = tuple(replica for replica in target.isr if replica in replicas)
    min_isr = effective_min_isr(rules.min_isr, replicas)
    elr: tuple[int, ...] = ()
    if rules.elr_enabled and len(isr) < min_isr:
        elr = _target_elr(partition, isr, target.unclean_restarts, replicas)
    outcome, leader = _elect(partition, replicas, isr, elr, rules)
    recovering = target.recovering
    if outcome is Outcome.FROM_ELR:
        # A leader that commits without the others must not leave them eligible.
        others = tuple(replica for replica in elr if replica != leader)
        isr, elr = (leader,), others if min_isr > 1 else ()
    elif outcome.unclean:
        isr, elr, recovering = (leader,), (), True
    assert not elr or len(isr) < min_isr, f"ElrBelowMinIsr: {isr} suffice beside {elr}"
    if not isr and not rules.elr_enabled:
        isr = tuple(replica for replica in partition.isr if replica in replicas)
        if not isr:
            # A costly cancel: no replica that stays was in sync, and none is alive.
            outcome, isr, recovering = Outcome.UNCLEAN_HEIR, replicas[:1], True
    last_known = _last_known(partition, isr, leader, rules)
    # A replica that was removed must not be taken for one that fetches: a new leader epoch.
    keeps_leader = leader == partition.leader and outcome is not Outcome.UNCLEAN_HEIR
    keeps_epoch = keeps_leader and not without(partition.replicas, replicas)
    return PartitionChange(
        isr=None if isr == partition.isr else isr,
        leader=None if keeps_epoch else leader,
        eligible_leaders=None if elr == partition.eligible_leaders else elr,
        last_known_eligible_leaders=(
            None if last_known == partition.last_known_eligible_leaders else last_known
        ),
        recovering=None if recovering == partition.recovering else recovering,
        assignment=None if assignment == now else assignment,
        outcome=Outcome.KEPT if keeps_leader else outcome,
    )


def _target_elr(
    partition: PartitionImage,
    isr: tuple[int, ...],
    unclean_restarts: tuple[int, ...],
    replicas: tuple[int, ...],
) -> tuple[int, ...]:
    gone = (*isr, *unclean_restarts)
    known = dict.fromkeys((*partition.eligible_leaders, *partition.isr))
    return tuple(replica for replica in known if replica not in gone and replica in replicas)


def _elect(
    partition: PartitionImage,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    rules: ElectionRules,
) -> tuple[Outcome, int]:
    candidates = isr or elr
    clean = Outcome.FROM_ISR if isr else Outcome.FROM_ELR

    def may_lead(replica: int) -> bool:
        return rules.may_lead(replica) and rules.has_directory(partition, replica)

    preferred = replicas[0]
    if rules.election is Election.PREFERRED and preferred in candidates and may_lead(preferred):
        return clean, preferred
    if partition.leader in candidates and may_lead(partition.leader):
        return clean, partition.leader
    for replica in replicas:
        if replica in candidates and may_lead(replica):
            return clean, replica
    last_known = tuple(r for r in partition.last_known_eligible_leaders if r in replicas)
    if rules.elr_enabled and not candidates and len(last_known) == 1 and may_lead(last_known[0]):
        return Outcome.LAST_KNOWN, last_known[0]
    if rules.election is Election.UNCLEAN:
        for replica in replicas:
            if may_lead(replica):
                return Outcome.UNCLEAN, replica
    return Outcome.LEADERLESS, NO_LEADER


def _last_known(
    partition: PartitionImage, isr: tuple[int, ...], leader: int, rules: ElectionRules
) -> tuple[int, ...]:
    known = partition.last_known_eligible_leaders
    if not rules.elr_enabled:
        return known
    if leader == partition.leader:
        # It was leaderless with a last member in sync, from a time without ELRs, and loses that.
        emptied = leader == NO_LEADER and not isr and len(partition.isr) == 1
        return partition.isr if emptied and not known else known
    if leader != NO_LEADER:
        return ()
    # Written once, when the partition becomes leaderless, and kept until the partition has a leader
    # again.
    return known or (partition.leader,)

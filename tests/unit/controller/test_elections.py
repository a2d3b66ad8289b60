"""One partition's decision as a table, and its invariants on random partitions."""

from dataclasses import replace
from typing import NamedTuple

import pytest

from tidelog.controller.assignments import Assignment
from tidelog.controller.elections import (
    Election,
    ElectionRules,
    Outcome,
    PartitionChange,
    PartitionTarget,
    decide_change,
)
from tidelog.env.prng import Prng
from tidelog.metadata.image import PartitionImage

PARTITION = PartitionImage((1, 2, 3), (1, 2, 3), 1, 4, 8)


class Case(NamedTuple):
    """A partition, its target ISR, who is alive, and the change that must come out."""

    name: str
    partition: PartitionImage
    isr: tuple[int, ...]
    alive: tuple[int, ...]
    change: PartitionChange
    min_isr: int = 2
    elr: bool = True
    unclean: bool = False
    lossy: tuple[int, ...] = ()


LEADERLESS = replace(PARTITION, isr=(), leader=-1)
SHRUNK = replace(PARTITION, isr=(1,), eligible_leaders=(2,))

CASES = [
    Case("nothing to do", PARTITION, (1, 2, 3), (1, 2, 3), PartitionChange()),
    Case(
        "a follower leaves: the leader epoch stays",
        PARTITION,
        (1, 2),
        (1, 2),
        PartitionChange(isr=(1, 2)),
    ),
    Case(
        "the leader leaves: the first valid replica in list order",
        replace(PARTITION, isr=(3, 2, 1)),
        (3, 2),
        (2, 3),
        PartitionChange(isr=(3, 2), leader=2, outcome=Outcome.FROM_ISR),
    ),
    Case(
        "a valid leader stays, though it is not the preferred one",
        replace(PARTITION, leader=2),
        (1, 2, 3),
        (1, 2, 3),
        PartitionChange(),
    ),
    Case(
        "below the min ISR the leavers stay eligible",
        PARTITION,
        (1,),
        (1,),
        PartitionChange(isr=(1,), eligible_leaders=(2, 3)),
    ),
    Case(
        "without ELR no replica is eligible",
        PARTITION,
        (1,),
        (1,),
        PartitionChange(isr=(1,)),
        elr=False,
    ),
    Case(
        "the ELR grows with each leaver",
        SHRUNK,
        (),
        (),
        PartitionChange(
            isr=(),
            leader=-1,
            eligible_leaders=(2, 1),
            last_known_eligible_leaders=(1,),
            outcome=Outcome.LEADERLESS,
        ),
    ),
    Case(
        "without ELR the last member stays in the ISR",
        replace(PARTITION, isr=(1,)),
        (),
        (2, 3),
        PartitionChange(leader=-1, outcome=Outcome.LEADERLESS),
        elr=False,
    ),
    Case(
        "and only it is elected again",
        replace(PARTITION, isr=(1,), leader=-1),
        (1,),
        (1, 2, 3),
        PartitionChange(leader=1, outcome=Outcome.FROM_ISR),
        elr=False,
    ),
    Case(
        "back at the min ISR the ELR is forgotten",
        SHRUNK,
        (1, 3),
        (1, 3),
        PartitionChange(isr=(1, 3), eligible_leaders=()),
    ),
    Case(
        "growing below the min ISR takes the joiner out of the ELR",
        replace(SHRUNK, eligible_leaders=(2, 3)),
        (1, 2),
        (1, 2),
        PartitionChange(isr=(1, 2), eligible_leaders=(3,)),
        min_isr=3,
    ),
    Case(
        "an ELR member leads when the ISR is empty, cleanly",
        replace(LEADERLESS, eligible_leaders=(3, 2), last_known_eligible_leaders=(1,)),
        (),
        (2, 3),
        PartitionChange(
            isr=(2,),
            leader=2,
            eligible_leaders=(3,),
            last_known_eligible_leaders=(),
            outcome=Outcome.FROM_ELR,
        ),
    ),
    Case(
        "a leader that suffices for the min ISR commits alone, so no other stays eligible",
        replace(LEADERLESS, eligible_leaders=(2, 1)),
        (),
        (2,),
        PartitionChange(isr=(2,), leader=2, eligible_leaders=(), outcome=Outcome.FROM_ELR),
        min_isr=1,
    ),
    Case(
        "a partition with fewer replicas than the min ISR needs them all",
        PartitionImage((1, 2), (1, 2), 1, 4, 8),
        (1,),
        (1,),
        PartitionChange(isr=(1,), eligible_leaders=(2,)),
        min_isr=3,
    ),
    Case(
        "a last member from a time without ELRs is known when it may have lost records",
        replace(LEADERLESS, isr=(1,)),
        (),
        (2, 3),
        PartitionChange(isr=(), last_known_eligible_leaders=(1,)),
        lossy=(1,),
    ),
    Case(
        "an ELR member does not lead while the ISR has members",
        replace(SHRUNK, leader=-1),
        (1,),
        (2, 3),
        PartitionChange(),
    ),
    Case(
        "a lossy restart leaves ISR and ELR",
        SHRUNK,
        (1,),
        (1, 3),
        PartitionChange(eligible_leaders=()),
        lossy=(2,),
    ),
    Case(
        "a lossy leader that was alone leaves no candidate",
        replace(PARTITION, isr=(1,), eligible_leaders=()),
        (),
        (2, 3),
        PartitionChange(
            isr=(), leader=-1, last_known_eligible_leaders=(1,), outcome=Outcome.LEADERLESS
        ),
        lossy=(1,),
    ),
    Case(
        "the last known leader returns, uncleanly",
        replace(LEADERLESS, last_known_eligible_leaders=(1,)),
        (),
        (1, 2),
        PartitionChange(
            isr=(1,),
            leader=1,
            last_known_eligible_leaders=(),
            recovering=True,
            outcome=Outcome.LAST_KNOWN,
        ),
    ),
    Case(
        "not while a replica is eligible",
        replace(LEADERLESS, eligible_leaders=(2,), last_known_eligible_leaders=(1,)),
        (),
        (1, 3),
        PartitionChange(),
    ),
    Case(
        "not among several last known ones",
        replace(LEADERLESS, last_known_eligible_leaders=(1, 2)),
        (),
        (1, 2),
        PartitionChange(),
    ),
    Case(
        "the first last known leader is remembered, not the later ones",
        replace(LEADERLESS, last_known_eligible_leaders=(3,)),
        (),
        (),
        PartitionChange(),
    ),
    Case(
        "unclean: any live replica, alone, recovering, and the ELR is forgotten",
        SHRUNK,
        (),
        (3,),
        PartitionChange(
            isr=(3,), leader=3, eligible_leaders=(), recovering=True, outcome=Outcome.UNCLEAN
        ),
        unclean=True,
    ),
    Case(
        "unclean prefers a clean leader",
        SHRUNK,
        (),
        (2, 3),
        PartitionChange(isr=(2,), leader=2, eligible_leaders=(1,), outcome=Outcome.FROM_ELR),
        unclean=True,
    ),
    Case(
        "unclean finds no replica",
        PARTITION,
        (),
        (),
        PartitionChange(
            isr=(),
            leader=-1,
            eligible_leaders=(1, 2, 3),
            last_known_eligible_leaders=(1,),
            outcome=Outcome.LEADERLESS,
        ),
        unclean=True,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_decision(case: Case) -> None:
    """Goal: the rules of KIP-966 and the order in which they apply."""
    rules = ElectionRules(
        may_lead=case.alive.__contains__,
        min_isr=case.min_isr,
        elr_enabled=case.elr,
        election=Election.UNCLEAN if case.unclean else Election.ONLINE,
    )
    target = PartitionTarget(case.isr, case.partition.recovering, case.lossy)
    change = decide_change(case.partition, target, rules)
    assert change == case.change
    written = [change.isr, change.leader, change.eligible_leaders, change.recovering]
    written.append(change.last_known_eligible_leaders)
    assert change.empty == all(field is None for field in written)


def test_the_leader_reports_its_recovery() -> None:
    """Goal: RECOVERED arrives with an AlterPartition, and touches nothing else."""
    partition = replace(PARTITION, isr=(1,), recovering=True)
    rules = ElectionRules(may_lead=(1,).__contains__, min_isr=1, elr_enabled=True)
    change = decide_change(partition, PartitionTarget((1,), False), rules)
    assert change == PartitionChange(recovering=False)


def _random_subset(prng: Prng, items: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(item for item in items if prng.chance(1, 2))


def _random_partition(prng: Prng, *, elr: bool) -> PartitionImage:
    replicas = (1, 2, 3, 4)[: prng.between(1, 4)]
    isr = _random_subset(prng, replicas)
    if not isr and not elr:
        isr = (prng.choice(replicas),)
    leader = prng.choice((*isr, -1))
    rest = tuple(replica for replica in replicas if replica not in isr)
    eligible = _random_subset(prng, rest) if elr else ()
    known = (prng.choice(replicas),) if elr and leader == -1 and prng.chance(1, 2) else ()
    return PartitionImage(replicas, isr, leader, 4, 8, eligible, known)


def test_invariants_on_random_partitions() -> None:
    """Goal: LeaderInIsr, IsrElrDisjoint, IsrNeverEmptyWithoutElr, and no unclean leader unasked.

    Method: 5,000 random partitions, targets and sets of live brokers from one seed.
    """
    prng = Prng(7)
    outcomes = set()
    for _ in range(5_000):
        elr, unclean = prng.chance(3, 4), prng.chance(1, 4)
        partition = _random_partition(prng, elr=elr)
        alive = _random_subset(prng, (1, 2, 3, 4))
        target = PartitionTarget(_random_subset(prng, partition.isr), False)
        rules = ElectionRules(
            may_lead=alive.__contains__,
            min_isr=min(2, len(partition.replicas)),
            elr_enabled=elr,
            election=Election.UNCLEAN if unclean else Election.ONLINE,
        )
        change = decide_change(partition, target, rules)
        outcomes.add(change.outcome)
        isr = partition.isr if change.isr is None else change.isr
        leader = partition.leader if change.leader is None else change.leader
        eligible = change.eligible_leaders
        eligible = partition.eligible_leaders if eligible is None else eligible
        context = f"{partition} {target} alive={alive} {change}"
        assert leader == -1 or (leader in isr and leader in alive), context
        assert not set(isr) & set(eligible), context
        assert isr or elr, context
        clean_before = {*partition.isr, *partition.eligible_leaders}
        if change.outcome in (Outcome.FROM_ISR, Outcome.FROM_ELR):
            assert leader in clean_before, context
        if change.outcome is Outcome.UNCLEAN:
            assert unclean, context
            assert change.recovering, context
    # No replica is moved here; that one needs a cancelled move.
    assert outcomes == set(Outcome) - {Outcome.UNCLEAN_HEIR}


def test_replicas_that_leave_no_member_in_sync_are_a_bug() -> None:
    target = PartitionTarget((), False, assignment=Assignment((4, 5)))
    rules = ElectionRules(may_lead=lambda _: True, min_isr=2, elr_enabled=True)
    with pytest.raises(AssertionError, match="ReassignmentKeepsIsr"):
        decide_change(PARTITION, target, rules)

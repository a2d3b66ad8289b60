"""The arithmetic of replicas that come and go."""

from dataclasses import replace

import pytest

from tidelog.controller.assignments import Assignment, assignment_of, reassigned
from tidelog.env.prng import Prng
from tidelog.metadata.image import PartitionImage

PARTITION = PartitionImage((1, 2, 3), (1, 2, 3), 1, 4, 8)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ((4, 5, 6), Assignment((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))),
        ((3, 4), Assignment((3, 4, 1, 2), (4,), (1, 2))),
        ((1, 2, 3, 4), Assignment((1, 2, 3, 4), (4,), ())),
        ((2,), Assignment((2, 1, 3), (), (1, 3))),
        ((3, 1, 2), Assignment((3, 1, 2))),
    ],
)
def test_a_target(target: tuple[int, ...], expected: Assignment) -> None:
    assert reassigned(PARTITION, target) == expected


@pytest.mark.parametrize(
    ("target", "isr", "done"),
    [
        ((4, 5, 6), (1, 2, 3, 4, 5), False),
        ((4, 5, 6), (1, 4, 5, 6), True),
        ((3, 4), (1, 2, 4), False),
        ((3, 4), (3, 4), True),
        ((1, 2, 3, 4), (2, 3), False),
        ((1, 2, 3, 4), (1, 4), True),
        ((2,), (1, 3), False),
        ((2,), (1, 2, 3), True),
        ((2, 3), (1, 2), False),
    ],
)
def test_when_the_leavers_may_go(target: tuple[int, ...], isr: tuple[int, ...], done: bool) -> None:
    assignment = reassigned(PARTITION, target)
    assert assignment.is_done(isr) is done
    assert assignment.settled(isr) == (Assignment(target) if done else assignment)


def moving(isr: tuple[int, ...]) -> PartitionImage:
    """From 1, 2, 3 to 4, 5."""
    return replace(
        PARTITION,
        replicas=(4, 5, 1, 2, 3),
        isr=isr,
        adding_replicas=(4, 5),
        removing_replicas=(1, 2, 3),
    )


def test_another_target_counts_from_the_same_origin() -> None:
    assert reassigned(moving((1, 2, 4)), (5, 6)) == Assignment((5, 6, 1, 2, 3), (5, 6), (1, 2, 3))
    assert reassigned(moving((1, 2, 4)), (1, 2, 3)) == Assignment((1, 2, 3))


def test_an_unwanted_newcomer_stays_while_no_other_replica_is_in_sync() -> None:
    assert reassigned(moving((4,)), (5, 6)) == Assignment((5, 6, 4, 1, 2, 3), (5, 6), (4, 1, 2, 3))


def test_origin_and_target_of_random_reassignments() -> None:
    """Goal: whatever the target, going on ends in it, going back in the origin, and no replica is
    dropped while that would leave no replica in sync."""
    prng = Prng(3)
    for _ in range(500):
        brokers = list(range(1, 9))
        prng.shuffle(brokers)
        origin = tuple(brokers[: 1 + prng.below(4)])
        prng.shuffle(brokers)
        target = tuple(brokers[: 1 + prng.below(4)])
        isr = tuple(replica for replica in origin if prng.below(2)) or origin[:1]
        partition = PartitionImage(origin, isr, isr[0], 0, 0)
        assignment = reassigned(partition, target)
        assert assignment.target == target
        assert set(assignment.origin) == set(origin)
        assert set(isr) <= set(assignment.replicas)
        settled = assignment.settled(isr)
        assert set(isr) & set(settled.replicas)
        started = replace(
            partition,
            replicas=assignment.replicas,
            adding_replicas=assignment.adding,
            removing_replicas=assignment.removing,
        )
        assert assignment_of(started) == assignment
        assert assignment.settled((*isr, *target)) == Assignment(target)

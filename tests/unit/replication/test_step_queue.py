"""The most urgent step first, each partition once."""

import pytest

from tidelog.model import TopicPartition
from tidelog.replication.hosting import Step
from tidelog.replication.step_queue import StepQueue

A, B, C = (TopicPartition("t", number) for number in range(3))


def take_all(queue: StepQueue) -> list[tuple[TopicPartition, Step]]:
    taken = []
    while queue:
        taken.append(queue.take())
        queue.check()
    return taken


def test_the_most_urgent_step_comes_first_whenever_it_arrived() -> None:
    queue = StepQueue()
    queue.put(A, Step.CREATE)
    queue.put(B, Step.BEGIN_LEADING)
    queue.put(C, Step.CREATE)
    assert take_all(queue) == [(B, Step.BEGIN_LEADING), (A, Step.CREATE), (C, Step.CREATE)]


def test_a_partition_waits_for_the_step_that_it_needs_by_now() -> None:
    """Newer metadata moves it; what it needs no more is not done."""
    queue = StepQueue()
    queue.put(A, Step.CREATE)
    queue.put(B, Step.FOLLOW)
    queue.put(A, Step.STOP_LEADING)
    queue.put(B, None)
    queue.put(C, None)
    queue.check()
    assert (queue.step_of(A), queue.step_of(B)) == (Step.STOP_LEADING, None)
    assert take_all(queue) == [(A, Step.STOP_LEADING)]


def test_the_same_step_again_keeps_the_place() -> None:
    queue = StepQueue()
    for key in (A, B, A):
        queue.put(key, Step.DROP)
    assert [key for key, _ in take_all(queue)] == [A, B]


def test_kinds_of_steps() -> None:
    queue = StepQueue()
    queue.put(A, Step.CREATE)
    assert A in queue and B not in queue
    assert queue.has_any(Step.RECONFIGURE, Step.DROP)
    assert not queue.has_any(Step.STOP_LEADING, Step.FOLLOW)


def test_no_partition_waits() -> None:
    with pytest.raises(AssertionError, match="no partition waits"):
        StepQueue().take()

"""Classic groups that read and copy a topic: what is complained of, by name, and one whole run."""

from dataclasses import replace

import pytest
from tests.sim.test_client_checks import a_view, rejects

from tidelog.env.prng import Prng
from tidelog.sim.evidence.group_progress import GroupProgress
from tidelog.sim.runs.cluster import ClusterRun
from tidelog.sim.scenarios.families import swarm_of
from tidelog.sim.scenarios.fault_kinds import FaultKind
from tidelog.sim.workloads.copies import CopyReader


def a_group(generation: int = 3) -> GroupProgress:
    """Member `a` has partition 0, and was given ten records of it."""
    progress = GroupProgress("g")
    progress.on_assigned("a", generation, [0], 0)
    progress.deliver(0, 0, 10)
    return progress


def test_a_generation_is_older_than_one_that_was_known():
    with rejects("GenerationMonotonic"):
        a_group(3).on_assigned("b", 2, [1], 3)


def test_a_generation_that_was_asked_for_before_the_next_one_was_known_comes_late():
    a_group(3).on_assigned("b", 2, [1], 2)


def test_two_members_get_one_partition_in_a_generation():
    progress = a_group()
    progress.on_assigned("a", 3, [0], 3)
    with rejects("SingleOwner"):
        progress.on_assigned("b", 3, [0], 3)


def test_a_commit_of_a_former_generation_counts():
    progress = a_group(3)
    late = progress.send(0, 5, 2)
    with rejects("OnlyTheGeneration"):
        progress.acknowledge(late)


def test_a_commit_that_was_sent_before_the_next_generation_counts():
    progress = a_group(3)
    sent = progress.send(0, 5, 3)
    progress.on_assigned("b", 4, [0], 3)
    progress.acknowledge(sent)
    assert progress.committed(0) == 5


@pytest.mark.parametrize("offset", [-1, 4])
def test_an_acknowledged_commit_is_lost(offset):
    progress = a_group()
    progress.acknowledge(progress.send(0, 5, 3))
    with rejects("CommittedNeverRegresses"):
        progress.on_committed(0, offset)


def test_a_commit_without_an_answer_may_come_behind_a_later_one():
    progress = a_group()
    unknown = progress.send(0, 4, 3)
    progress.acknowledge(progress.send(0, 5, 3))
    progress.on_committed(0, 4)
    progress.refuse(unknown)
    with rejects("CommittedNeverRegresses"):
        progress.on_committed(0, 4)


def test_a_commit_without_an_answer_is_known_when_the_coordinator_says_so():
    """The last one of all: nothing is left for a later commit, which would be acknowledged."""
    progress = a_group()
    progress.acknowledge(progress.send(0, 5, 3))
    progress.send(0, 10, 3)
    assert progress.committed(0) == 5
    progress.on_committed(0, 10)
    assert progress.committed(0) == 10


def test_a_commit_of_a_former_generation_does_not_come_behind_one_of_the_next():
    progress = a_group(3)
    progress.send(0, 4, 3)
    progress.on_assigned("b", 4, [0], 3)
    progress.acknowledge(progress.send(0, 5, 4))
    with rejects("CommittedNeverRegresses"):
        progress.on_committed(0, 4)


def test_more_is_committed_than_any_member_was_given():
    with rejects("DeliveredAtLeastOnce"):
        a_group().on_committed(0, 11)


@pytest.mark.parametrize("second", ["0:v", "2:v"])
def test_a_record_is_copied_twice_or_not_at_all(second):
    reader = CopyReader(a_view(), Prng(1), lambda: True)
    reader._see(0, 0, "0:v")
    with rejects("CopiedExactlyOnce"):
        reader._see(0, 1, second)


def test_both_groups_have_everything_though_coordinators_and_leaders_die():
    swarm = replace(
        swarm_of("copies", 1),
        faults=(FaultKind.KILL,),
        fault_gap_ms=1000,
        fault_length_ms=500,
        fault_phase_ms=8000,
    )
    run = ClusterRun(1, swarm)
    outcome = run.run()
    assert outcome.violation is None
    assert outcome.faults
    assert run.workload.copied_count > 10

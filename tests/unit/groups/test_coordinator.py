"""Goal: an answer is never taken back, also when another node coordinates next.

Method: leaders that follow each other over one log in memory, with and without what was not
committed yet.
"""

import pytest

from tests.unit.groups.rig import (
    DELAY_MS,
    T0,
    T1,
    MemoryPartition,
    Rig,
    commit,
    heartbeat,
    join,
    sync,
)
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.groups.messages import (
    CommitOffsetsResult,
    FetchOffsets,
    JoinGroupResult,
    SyncGroupResult,
)
from tidelog.rsm.coordinator import Refused


def test_a_commit_is_answered_when_it_is_committed_and_not_before():
    rig = Rig()
    number = rig.send(commit(7))
    assert number not in rig.answers
    assert rig.coordinator.committed.get("g") is None
    # Nor does a reader see it.
    seen = rig.send(FetchOffsets("g", (T0,)))
    assert rig.answers[seen].offsets == ((T0, None),)
    rig.commit()
    assert rig.answers[number] == CommitOffsetsResult(((T0, ErrorCode.NONE),))
    assert rig.committed() == {T0: 7}


def test_what_was_acknowledged_is_there_under_the_next_leader():
    partition = MemoryPartition()
    rig = Rig(partition)
    assert rig.ask(commit(7)).partitions == ((T0, ErrorCode.NONE),)
    lost = rig.send(commit(9, partition=T1))
    # The next leader has what the replicas have, and begins before the former one knows.
    successor = Rig(partition)
    assert successor.committed() == {T0: 7}
    # The former one learns of it by its next append.
    late = rig.send(commit(11))
    assert rig.coordinator.is_deposed
    rig.coordinator.resign()
    rig._settle()
    assert rig.answers[lost] == rig.answers[late] == Refused(ErrorCode.NOT_COORDINATOR)
    assert successor.committed() == {T0: 7}


def test_members_of_the_last_written_generation_go_on_under_the_next_leader():
    partition = MemoryPartition()
    rig = Rig(partition)
    first, second = rig.group_of("a", "b")
    successor = Rig(partition, now=1_000_000)
    assert successor.ask(heartbeat(first, 1)).error_code is ErrorCode.NONE
    found = successor.ask(sync(second, 1))
    assert found.assignment == f"for {second}".encode()
    assert successor.ask(commit(3, first, 1)).partitions == ((T0, ErrorCode.NONE),)
    # The one that does not come back is removed after its session timeout.
    successor.advance(6_000)
    successor.ask(heartbeat(first, 1))
    successor.advance(6_000)
    assert set(successor.coordinator.groups["g"].members) == {first}


def test_members_in_the_middle_of_a_rebalance_begin_again_under_the_next_leader():
    partition = MemoryPartition()
    rig = Rig(partition)
    first, _ = rig.group_of("a", "b")
    waiting = rig.send(join(first, protocols=join().protocols * 2))
    assert waiting not in rig.answers
    successor = Rig(partition)
    assert successor.ask(heartbeat(first, 1)).error_code is ErrorCode.NONE
    rig.coordinator.resign()
    rig._settle()
    assert rig.answers[waiting] == JoinGroupResult(ErrorCode.NOT_COORDINATOR, first)


def test_an_assignment_is_given_out_when_it_is_committed():
    """AssignmentIsDurable: else the next leader would know another generation than its members."""
    rig = Rig()
    member = rig.join_new()
    number = rig.send(join(member))
    rig.advance(2 * DELAY_MS)
    joined = rig.answers[number]
    waiting = rig.send(sync(member, joined.generation_id, ((member, b"all"),)))
    assert waiting not in rig.answers
    rig.commit()
    assert rig.answers[waiting] == SyncGroupResult(ErrorCode.NONE, "consumer", "range", b"all")


@pytest.mark.parametrize("seed", range(20))
def test_committed_offsets_never_go_back(seed):
    """Random commits, some of them lost with their leader: what was acknowledged stays."""
    prng = Prng(seed)
    partition = MemoryPartition()
    rig = Rig(partition)
    asked: dict[int, tuple[str, int]] = {}
    acknowledged: dict[str, int] = {}
    for offset in range(1, 80):
        group_id = f"g{prng.below(5)}"
        asked[rig.send(commit(offset, group_id=group_id))] = group_id, offset
        if prng.chance(1, 3):
            rig.commit()
        for number in [each for each in asked if each in rig.answers]:
            group_id, offset = asked.pop(number)
            acknowledged[group_id] = offset
        if prng.chance(1, 8):
            rig, asked = Rig(partition), {}
        assert {each: rig.committed(each)[T0] for each in acknowledged} == acknowledged
    assert acknowledged

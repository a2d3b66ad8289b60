"""Offsets wait for their transaction, and count where they stand in the log (I27)."""

import pytest

from tests.unit.groups.consumer_rig import Consumers
from tests.unit.groups.rig import T0, T1, Rig
from tidelog.errors import ErrorCode
from tidelog.groups.messages import (
    CommitInTransaction,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    EndTransaction,
    EndTransactionResult,
    FetchOffsets,
)
from tidelog.groups.records import CommittedOffset
from tidelog.records.control import EndTxnMarker
from tidelog.rsm.coordinator import Refused

A, B = 11, 12


def offsets(**by_partition):
    return tuple(
        ({"t0": T0, "t1": T1}[name], CommittedOffset(offset))
        for name, offset in by_partition.items()
    )


def begin(rig, producer_id, group_id="g", *, generation_id=-1, member_id="", **by_partition):
    """A commit in the transaction of a producer."""
    commit = CommitOffsets(group_id, generation_id, member_id, None, offsets(**by_partition))
    return rig.ask(CommitInTransaction(group_id, producer_id, 0, commit))


def plain(rig, **by_partition):
    return rig.ask(CommitOffsets("g", -1, "", None, offsets(**by_partition)))


def end(rig, producer_id, *, is_commit=True):
    marker = EndTxnMarker(is_commit, 0)
    assert rig.ask(EndTransaction(producer_id, 0, marker, False)) == EndTransactionResult()


def committed(rig, group_id="g"):
    """What a consumer sees, and for what it has to wait."""
    found = rig.ask(FetchOffsets(group_id, (T0, T1), require_stable=True))
    values = [value.offset if value else None for _, value in found.offsets]
    return [
        "unstable" if each in found.unstable else value
        for each, value in zip((T0, T1), values, strict=True)
    ]


@pytest.mark.parametrize("is_commit", [True, False])
def test_they_count_if_and_only_if_it_commits(is_commit):
    rig = Rig()
    plain(rig, t0=1, t1=1)
    begin(rig, A, t0=5)
    assert committed(rig) == ["unstable", 1]
    end(rig, A, is_commit=is_commit)
    assert committed(rig) == [5 if is_commit else 1, 1]


def test_they_count_where_they_stand_in_the_log():
    rig = Rig()
    begin(rig, A, t0=5, t1=5)
    begin(rig, B, t0=6)
    plain(rig, t1=9)
    end(rig, B)
    assert committed(rig) == ["unstable", "unstable"]
    end(rig, A)
    assert committed(rig) == [6, 9]


def test_the_next_coordinator_loads_what_waits():
    rig = Rig()
    begin(rig, A, t0=5)
    plain(rig, t1=4)
    begin(rig, A, t1=7)
    end(rig, B)
    successor = Rig(rig.partition, now=rig.now)
    assert committed(successor) == ["unstable", "unstable"]
    end(successor, A)
    assert committed(Rig(rig.partition, now=rig.now)) == [5, 7]


def test_a_commit_that_is_not_committed_to_the_log_waits_too():
    """KIP-447: who reads behind it would consume once more what the transaction has consumed."""
    rig = Rig()
    plain(rig, t0=1, t1=1)
    commit = CommitOffsets("g", -1, "", None, offsets(t0=5))
    rig.send(CommitInTransaction("g", A, 0, commit))
    asked = rig.send(FetchOffsets("g", (T0, T1), require_stable=True))
    assert rig.answers[asked].unstable == {T0}
    rig.commit()
    end(rig, A)
    assert committed(rig) == [5, 1]


def test_a_marker_that_is_not_committed_shows_nothing():
    rig = Rig()
    begin(rig, A, t0=5)
    rig.send(EndTransaction(A, 0, EndTxnMarker(True, 0), False))
    question = rig.send(FetchOffsets("g", (T0,), require_stable=True))
    assert rig.answers[question].unstable == {T0}
    rig.partition.lose_uncommitted()
    assert committed(Rig(rig.partition, now=rig.now)) == ["unstable", None]


def test_it_may_be_of_several_groups():
    rig = Rig()
    begin(rig, A, "g", t0=5)
    begin(rig, A, "h", t0=6)
    end(rig, A)
    assert (committed(rig, "g"), committed(rig, "h")) == ([5, None], [6, None])


def test_what_is_deleted_does_not_come_back():
    rig = Rig()
    begin(rig, A, t0=5, t1=5)
    rig.ask(DeleteOffsets("g", (T0,)))
    assert committed(rig) == [None, "unstable"]
    assert rig.ask(DeleteGroup("g")).error_code is ErrorCode.NONE
    assert rig.ask(DeleteGroup("g")).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    end(rig, A)
    assert committed(rig) == [None, None] and not len(rig.coordinator.committed.groups)


def test_without_a_generation_anyone_commits_and_with_one_only_its_members():
    rig = Rig()
    assert begin(rig, A, generation_id=3, member_id="m", t0=1) == Refused(
        ErrorCode.ILLEGAL_GENERATION
    )
    (member_id,) = rig.group_of("a")
    generation_id = rig.coordinator.groups["g"].generation_id
    assert begin(rig, A, t0=1).partitions == ((T0, ErrorCode.NONE),)
    member = {"generation_id": generation_id, "member_id": member_id}
    assert begin(rig, A, **member, t0=2).partitions == ((T0, ErrorCode.NONE),)
    late = {**member, "generation_id": generation_id + 1}
    assert begin(rig, A, **late, t0=2) == Refused(ErrorCode.ILLEGAL_GENERATION)
    other = {**member, "member_id": "other"}
    assert begin(rig, A, **other, t0=2) == Refused(ErrorCode.UNKNOWN_MEMBER_ID)


def test_who_may_commit_for_a_consumer_group():
    """A client need not name a member; one that is named names its epoch too."""
    rig = Consumers()
    epoch = rig.join("m").member_epoch
    for member_id, generation_id, code in (
        ("", -1, ErrorCode.NONE),
        ("m", epoch, ErrorCode.NONE),
        ("m", epoch - 1, ErrorCode.ILLEGAL_GENERATION),
        ("m", epoch + 1, ErrorCode.ILLEGAL_GENERATION),
        ("x", epoch, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        answer = begin(rig, A, member_id=member_id, generation_id=generation_id, t0=5)
        assert getattr(answer, "error_code", ErrorCode.NONE) is code
    end(rig, A)
    assert committed(rig) == [5, None]

"""The follower: what it asks, what it believes, what it cuts."""

from dataclasses import replace

import pytest

from tests.unit.kraft.solo import CLUSTER_ID, Solo, begin, fetched
from tidelog.config import LogConfig, QuorumConfig
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.kraft.fetcher import MAX_PROBE_WAIT_MS
from tidelog.kraft.messages import QuorumFetchRequest, QuorumFetchResponse
from tidelog.kraft.quorum_state import ElectionState, RoleName
from tidelog.kraft.roles import Follower
from tidelog.model import EpochEndOffset
from tidelog.records.batch import build_batch
from tidelog.records.record import Record


def follower(log_epochs: tuple[int, ...] = (1, 1), *, epoch: int = 1) -> Solo:
    """Replica 1 follows voter 2 and has fetched from it."""
    solo = Solo(state=ElectionState(epoch), log_epochs=log_epochs)
    solo.start()
    solo.ask(begin(leader_epoch=epoch))
    return solo


def in_flight(solo: Solo) -> QuorumFetchRequest | None:
    """The one fetch that is not answered, if any."""
    requests = solo.core.requests.outstanding(QuorumFetchRequest)
    assert len(requests) <= 1
    assert not requests or isinstance(requests[0], QuorumFetchRequest)
    return requests[0] if requests else None  # type: ignore[return-value]


def answer(solo: Solo, now: int = 10, **changes: object) -> None:
    """Voter 2 answers the fetch in flight."""
    request = in_flight(solo)
    assert request is not None
    response = fetched(leader_epoch=solo.quorum.epoch, **changes)
    solo.quorum.on_response(2, request, response, Instant(now))


def batches(base_offset: int, *epochs: int) -> dict[str, object]:
    """Records for a response: one batch of one record for each epoch."""
    chunks = tuple(
        build_batch([Record(0, None, b"v")], base_offset=base_offset + index, leader_epoch=epoch)
        for index, epoch in enumerate(epochs)
    )
    return {"records": chunks, "records_bytes": sum(map(len, chunks))}


def test_a_fetch_says_where_the_log_ends() -> None:
    """Offset, last epoch and high watermark, and that it can wait."""
    request = in_flight(follower((1, 3), epoch=4))
    assert request is not None
    assert (request.epoch, request.fetch_offset, request.last_fetched_epoch) == (4, 2, 3)
    assert (request.high_watermark, request.max_wait_ms) == (-1, 500)


def test_the_next_fetch_waits_for_the_disk() -> None:
    """It would acknowledge what came; it goes out when that is flushed."""
    solo = follower()
    answer(solo, **batches(2, 1, 1))
    assert in_flight(solo) is None
    solo.wake(10)
    assert in_flight(solo) is None
    solo.flush(15)
    request = in_flight(solo)
    assert request is not None
    assert request.fetch_offset == 4


def test_what_arrives_during_a_flush_is_flushed_by_the_next() -> None:
    """Group commit on the leader: three appends, two flushes."""
    solo = Solo()
    solo.lead()
    for index in range(3):
        solo.quorum.append([b"a"], Instant(100), 100)
        solo.wake(100 + index)
    assert len(solo.effects) == 1
    assert solo.log.recovery_point == 1
    solo.flush(105)
    assert solo.log.recovery_point == 2
    solo.settle(106)
    assert solo.log.recovery_point == 4


def test_the_followers_high_watermark_is_at_most_its_log_end() -> None:
    """And never falls when a leader knows less."""
    solo = follower()
    answer(solo, high_watermark=9, **batches(2, 1))
    assert solo.quorum.high_watermark == 3
    solo.settle(10)
    answer(solo, high_watermark=-1)
    assert solo.quorum.high_watermark == 3
    assert [one.base_offset for one in solo.quorum.take_committed()] == [0, 1, 2]
    assert solo.quorum.take_committed() == []


def test_a_voter_that_lost_records_votes_again_at_the_end_of_the_leaders_log() -> None:
    """MemoryComesBackFirst. Goal: a fetch from before the loss, which the leader may receive late,
    claims nothing that this voter lacks. So the high watermark alone does not say enough, nor
    the first part of what is missing."""
    solo = Solo(state=ElectionState(1), log_epochs=(1, 1))
    solo.quorum.distrust_log()
    solo.start()
    solo.ask(begin(leader_epoch=1))
    for offset in (2, 3):
        answer(solo, high_watermark=2, **batches(offset, 1))
        solo.settle(10)
        assert solo.core.must_catch_up
    answer(solo, high_watermark=-1)
    solo.settle(10)
    assert solo.core.must_catch_up
    answer(solo, high_watermark=4)
    assert not solo.core.must_catch_up


@pytest.mark.parametrize(
    ("log_epochs", "diverging", "left"),
    [
        ((1, 1, 3, 3), EpochEndOffset(1, 2), 2),
        ((1, 1, 3, 3), EpochEndOffset(3, 3), 3),
        ((1, 1, 3, 3), EpochEndOffset(2, 3), 2),
        ((1, 1, 1, 1), EpochEndOffset(1, 3), 3),
        ((3, 3), EpochEndOffset(1, 1), 0),
        ((1, 1), EpochEndOffset(0, 0), 0),
    ],
)
def test_the_log_is_cut_to_the_last_common_epoch(
    log_epochs: tuple[int, ...], diverging: EpochEndOffset, left: int
) -> None:
    """And asked from there; records and high watermark of such an answer are ignored."""
    solo = follower(log_epochs, epoch=4)
    answer(solo, diverging_epoch=diverging, high_watermark=4, **batches(4, 4))
    assert solo.log.log_end_offset == left
    assert solo.quorum.high_watermark == 0
    solo.settle(10)
    request = in_flight(solo)
    assert request is not None
    assert request.fetch_offset == left


def test_a_log_of_many_segments_is_cut_a_few_a_turn() -> None:
    """BoundedTurn. Goal: the leader is asked again in between, from where the log ends then, until
    both agree."""
    solo = Solo(state=ElectionState(4))
    solo.log.reconfigure(LogConfig(segment_bytes=1))
    for _ in range(10):
        solo.log.append_as_follower(solo.next_batch(1), 1)
    solo.start()
    solo.ask(begin(leader_epoch=4))
    ends = []
    while solo.log.log_end_offset > 2:
        answer(solo, diverging_epoch=EpochEndOffset(1, 2))
        solo.settle(10)
        request = in_flight(solo)
        assert request is not None and request.fetch_offset == solo.log.log_end_offset
        ends.append(request.fetch_offset)
    assert ends == [6, 3, 2]
    assert len(solo.log.segments) == 3


def test_cutting_what_is_committed_stops_the_node() -> None:
    """Some quorum property was broken before; losing metadata silently would be worse."""
    solo = follower()
    answer(solo, high_watermark=2)
    solo.settle(10)
    with pytest.raises(AssertionError, match="NoCommittedTruncation: to 0 below 2"):
        answer(solo, diverging_epoch=EpochEndOffset(0, 0))


def test_a_useless_divergence_is_not_asked_for_in_a_circle() -> None:
    """The named end is our own log end: a pause, not a loop."""
    solo = follower()
    answer(solo, diverging_epoch=EpochEndOffset(1, 2), now=10)
    assert in_flight(solo) is None
    solo.settle(29)
    assert in_flight(solo) is None
    solo.settle(30)
    assert in_flight(solo) is not None


def test_damaged_and_misplaced_records_are_not_appended() -> None:
    """A flipped bit, a gap, and records from before the log end; each is asked for again."""
    damaged = bytearray(build_batch([Record(0, None, b"v")], base_offset=2, leader_epoch=1))
    damaged[-1] ^= 1
    for records in ((bytes(damaged),), batches(3, 1)["records"], batches(1, 1)["records"]):
        solo = follower()
        answer(solo, records=records, records_bytes=1)
        assert solo.log.log_end_offset == 2
        solo.settle(30)
        assert in_flight(solo) is not None


def test_records_above_the_fetched_epoch_are_left_out() -> None:
    """They belong to a leader that this follower does not know yet."""
    solo = follower()
    answer(solo, **batches(2, 1, 9))
    assert solo.log.log_end_offset == 3


def test_errors_are_followed_by_a_pause() -> None:
    """An answer of a leader that fell behind must not make a busy loop either."""
    for error, epoch in ((ErrorCode.UNKNOWN_SERVER_ERROR, 4), (ErrorCode.UNKNOWN_LEADER_EPOCH, 3)):
        solo = follower(epoch=4)
        request = in_flight(solo)
        assert request is not None
        response = replace(fetched(leader_epoch=epoch), error_code=error)
        solo.quorum.on_response(2, request, response, Instant(10))
        assert in_flight(solo) is None
        assert solo.quorum.deadline() == 30
        assert solo.quorum.role.name is RoleName.FOLLOWER


@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE]
)
def test_a_leader_that_says_it_is_none_is_doubted_at_once(error: ErrorCode) -> None:
    """It was restarted: it will not lead this epoch again."""
    solo = follower()
    answer(solo, error_code=error, leader_id=-1)
    assert isinstance(solo.core.role, Follower)
    assert solo.core.role.is_in_doubt
    solo.settle(60)
    assert solo.quorum.role.name is RoleName.PROSPECTIVE


def test_an_answer_that_comes_too_late_is_ignored() -> None:
    """The role has changed in between; its records are not appended."""
    solo = follower()
    request = in_flight(solo)
    assert request is not None
    solo.settle(2000)
    assert solo.quorum.role.name is RoleName.PROSPECTIVE
    solo.quorum.on_response(2, request, fetched(**batches(2, 1)), Instant(2001))
    assert solo.log.log_end_offset == 2


def test_a_successful_fetch_keeps_the_leader() -> None:
    """The fetch timeout counts from the last answer."""
    solo = follower()
    answer(solo, now=500)
    solo.settle(500)
    assert solo.core.role.deadline() == 2500
    lost = in_flight(solo)
    assert lost is not None
    solo.quorum.on_response(2, lost, None, Instant(600))
    assert solo.core.role.deadline() == 2500


def test_an_unattached_replica_asks_around_with_growing_pauses() -> None:
    """One voter after the other, without waiting there; from 20 to 500 ms apart."""
    solo = Solo(own_id=9)
    solo.start()
    asked: list[int] = []
    pauses: list[int] = []
    now = 0
    for _ in range(20):
        request = in_flight(solo)
        assert request is not None
        assert request.max_wait_ms == 0
        ((peer_id, _),) = solo.core.requests._outstanding
        asked.append(peer_id)
        nothing = QuorumFetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, 0)
        solo.quorum.on_response(peer_id, request, nothing, Instant(now))
        deadline = solo.quorum.deadline()
        assert deadline is not None
        pauses.append(deadline - now)
        now = deadline
        solo.settle(now)
    assert set(asked) == {1, 2, 3}
    assert pauses[:5] == [20, 40, 80, 160, 320]
    assert pauses[-1] == MAX_PROBE_WAIT_MS
    request = in_flight(solo)
    assert request is not None
    ((peer_id, _),) = solo.core.requests._outstanding
    solo.quorum.on_response(peer_id, request, fetched(), Instant(now))
    assert (solo.quorum.role.name, solo.quorum.leader_id) == (RoleName.FOLLOWER, 2)


def test_an_observer_whose_leader_is_silent_asks_around() -> None:
    """It never campaigns; when it learns of the same leader again, it follows it again."""
    solo = Solo(own_id=9, state=ElectionState(1, 2), config=QuorumConfig(fetch_timeout_ms=100))
    solo.start()
    request = in_flight(solo)
    assert request is not None
    solo.quorum.on_response(request.replica_id, request, None, Instant(0))
    while solo.quorum.role.name is RoleName.UNATTACHED:
        probe = in_flight(solo)
        if probe is None:
            deadline = solo.quorum.deadline()
            assert deadline is not None
            solo.settle(deadline)
            continue
        ((peer_id, _),) = solo.core.requests._outstanding
        solo.quorum.on_response(peer_id, probe, fetched(), Instant(10))
    assert (solo.quorum.role.name, solo.quorum.leader_id) == (RoleName.FOLLOWER, 2)
    solo.settle(5000)
    assert solo.quorum.role.name is RoleName.UNATTACHED
    assert solo.quorum.epoch == 1


def test_a_leader_of_another_cluster_teaches_nothing_and_is_reported_once() -> None:
    """As a broker meets it whose `controller.quorum.voters` name another cluster."""
    solo = Solo(own_id=9)
    solo.start()
    solo.trace_lines()
    lines = []
    for now in range(0, 5000, 100):
        if (request := in_flight(solo)) is not None:
            ((peer_id, _),) = solo.core.requests._outstanding
            stranger = fetched(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, leader_epoch=7)
            solo.quorum.on_response(peer_id, request, stranger, Instant(now))
        solo.settle(Instant(now))
        lines += [line for line in solo.trace_lines() if "of another cluster; hint: " in line]
    assert (solo.quorum.epoch, solo.quorum.leader_id) == (0, -1)
    assert {line.partition("voter=")[2] for line in lines} == {
        f"{peer_id} cluster_id={CLUSTER_ID}" for peer_id in (1, 2, 3)
    }
    assert len(lines) == 3

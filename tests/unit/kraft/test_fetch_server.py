"""What a leader answers to fetches, and when."""

import pytest

from tests.unit.kraft.solo import Solo, fetch, vote
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.kraft.committed import contiguous
from tidelog.kraft.leader import Leader
from tidelog.kraft.messages import QuorumFetchRequest, QuorumFetchResponse, Reply
from tidelog.kraft.quorum_state import ElectionState
from tidelog.limits import MAX_PARKED_QUORUM_FETCHES
from tidelog.model import EpochEndOffset
from tidelog.records.batch import iter_headers

NOW = 500


def leader(log_epochs: tuple[int, ...] = (1, 1, 3)) -> Solo:
    """Replica 1 leads epoch 6 with a log of old epochs; offset 3 is its LEADER_CHANGE."""
    solo = Solo(state=ElectionState(5), log_epochs=log_epochs)
    assert solo.lead() == 6
    return solo


def ask(solo: Solo, now: int = NOW, **changes: object) -> QuorumFetchResponse | None:
    """A fetch in epoch 6 and its answer, `None` when it waits."""
    answer = solo.ask(fetch(**{"epoch": 6, **changes}), now)
    assert answer is None or isinstance(answer, QuorumFetchResponse)
    return answer


def answered(solo: Solo, now: int) -> list[QuorumFetchResponse]:
    """The fetches that are answered at the end of this tick."""
    replies = [one.response for one in solo.settle(now) if isinstance(one, Reply)]
    assert all(isinstance(one, QuorumFetchResponse) for one in replies)
    return [one for one in replies if isinstance(one, QuorumFetchResponse)]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"fetch_offset": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_fetched_epoch": -1}, ErrorCode.INVALID_REQUEST),
        ({"max_wait_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_fetched_epoch": 7}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 5}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 7}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({}, ErrorCode.NONE),
    ],
)
def test_fetches_are_checked_in_order(changes: dict[str, object], error: ErrorCode) -> None:
    """Every answer names the leader, its epoch, and where it is reached."""
    solo = leader()
    answer = ask(solo, **changes)
    assert answer is not None
    assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (error, 1, 6)
    assert answer.leader_endpoint is not None
    assert answer.leader_endpoint.host == "n1"
    assert bool(answer.records) is (error is ErrorCode.NONE)


def test_a_fetch_of_a_higher_epoch_does_not_depose_the_leader() -> None:
    """Only votes, beginnings, ends and answers move the epoch on."""
    solo = leader()
    ask(solo, epoch=9)
    assert solo.quorum.is_leader


def test_a_replica_that_does_not_lead_refuses() -> None:
    """And who does, when it knows."""
    solo = Solo(state=ElectionState(6, 2))
    solo.start()
    answer = ask(solo)
    assert answer is not None
    assert answer.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.leader_id, answer.leader_epoch) == (2, 6)


def test_data_up_to_the_log_end_is_sent_uncommitted_or_not() -> None:
    """From the fetch offset on, whole batches; at least one, however small the limit."""
    solo = leader()
    answer = ask(solo, fetch_offset=1, last_fetched_epoch=1)
    assert answer is not None
    data = contiguous(answer.records)
    assert [header.base_offset for _, header in iter_headers(data)] == [1, 2, 3]
    assert (answer.records_bytes, answer.high_watermark) == (len(data), -1)
    small = ask(solo, fetch_offset=1, last_fetched_epoch=1, max_bytes=1)
    assert small is not None
    assert [header.base_offset for _, header in iter_headers(contiguous(small.records))] == [1]


@pytest.mark.parametrize(
    ("fetch_offset", "last_epoch", "diverging"),
    [
        (2, 1, None),
        (3, 3, None),
        (4, 6, None),
        (3, 1, EpochEndOffset(1, 2)),
        (3, 2, EpochEndOffset(1, 2)),
        (4, 3, EpochEndOffset(3, 3)),
        (5, 6, EpochEndOffset(6, 4)),
        (2, 0, EpochEndOffset(0, 0)),
        (3, 5, EpochEndOffset(3, 3)),
        (0, 5, None),
    ],
)
def test_where_logs_part(
    fetch_offset: int, last_epoch: int, diverging: EpochEndOffset | None
) -> None:
    """Epoch 1 is [0, 2), epoch 3 is [2, 3), epoch 6 is [3, 4). A divergence shows nothing about
    progress and brings no data, but shows that the voter is there."""
    solo = leader()
    answer = ask(solo, fetch_offset=fetch_offset, last_fetched_epoch=last_epoch, max_wait_ms=0)
    assert answer is not None
    assert answer.diverging_epoch == diverging
    role = solo.core.role
    assert isinstance(role, Leader)
    assert role.voters[2].log_end_offset == (fetch_offset if diverging is None else -1)
    assert role.voters[2].fetched_at == NOW
    assert not (diverging and answer.records)


@pytest.mark.parametrize("last_epoch", [0, 1, 2])
def test_without_its_snapshot_a_log_does_not_judge_what_came_before(last_epoch: int) -> None:
    """The log begins at offset 2 with epoch 3, and the snapshot below was damaged. No replica knows
    where older epochs ended: to call that offset 2 would leave a fetcher with its own record 1."""
    solo = leader()
    assert ask(solo, fetch_offset=4, last_fetched_epoch=6) is not None
    assert solo.core.log.maybe_raise_log_start_offset(2)
    answer = ask(solo, fetch_offset=3, last_fetched_epoch=last_epoch)
    assert answer is not None
    assert answer.error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    known = ask(solo, fetch_offset=3, last_fetched_epoch=3)
    assert known is not None
    assert (known.error_code, known.diverging_epoch) == (ErrorCode.NONE, None)


def test_a_caught_up_fetch_waits_for_data() -> None:
    """Several appends of one tick answer it once."""
    solo = leader()
    ask(solo, fetch_offset=4, last_fetched_epoch=6)
    assert ask(solo, fetch_offset=4, last_fetched_epoch=6, high_watermark=4) is None
    solo.quorum.append([b"a"], Instant(NOW), NOW)
    solo.quorum.append([b"b", b"c"], Instant(NOW), NOW)
    assert solo.quorum.deadline() == 0
    (answer,) = answered(solo, NOW + 1)
    assert [header.base_offset for _, header in iter_headers(contiguous(answer.records))] == [4, 5]


def test_a_higher_high_watermark_is_news_only_for_a_follower_that_does_not_know_it() -> None:
    """Voter 2 commits offset 3 by its fetch; voter 3 knew 4 already, observer 7 did not, and
    replica 8 is too old to say."""
    solo = leader()
    any_high_watermark = 2**63 - 1
    waiting = [(3, 4), (7, -1), (8, any_high_watermark)]
    for replica_id, known in waiting:
        solo.quorum.on_request(
            fetch(
                epoch=6,
                replica_id=replica_id,
                fetch_offset=4,
                last_fetched_epoch=6,
                high_watermark=known,
            ),
            replica_id,
            Instant(NOW),
        )
    woken = {one.reply_to for one in solo.settle(NOW) if isinstance(one, Reply)}
    assert woken == {7}
    assert solo.quorum.high_watermark == 4


def test_a_fetch_that_waited_long_enough_is_answered_empty() -> None:
    """After its own wait; without a wait at once."""
    solo = leader()
    ask(solo, fetch_offset=4, last_fetched_epoch=6)
    caught_up = {"fetch_offset": 4, "last_fetched_epoch": 6, "high_watermark": 4}
    assert ask(solo, **caught_up) is None
    assert answered(solo, NOW + 499) == []
    (answer,) = answered(solo, NOW + 500)
    assert (answer.error_code, answer.records, answer.high_watermark) == (ErrorCode.NONE, (), 4)
    assert ask(solo, **caught_up, max_wait_ms=0) is not None


def test_a_newer_fetch_of_a_replica_ends_its_older_one() -> None:
    """The older one belongs to a connection that is gone."""
    solo = leader()
    ask(solo, fetch_offset=4, last_fetched_epoch=6)
    request = fetch(epoch=6, fetch_offset=4, last_fetched_epoch=6, high_watermark=4)
    for token in ("older", "newer"):
        solo.quorum.on_request(request, token, Instant(NOW))
    assert [one.reply_to for one in solo.settle(NOW) if isinstance(one, Reply)] == ["older"]


def test_a_lost_leadership_fails_all_parked_fetches() -> None:
    """At once, naming what is known of the new epoch."""
    solo = leader()
    ask(solo, fetch_offset=4, last_fetched_epoch=6)
    assert ask(solo, fetch_offset=4, last_fetched_epoch=6, high_watermark=4) is None
    solo.quorum.on_request(
        vote(epoch=7, last_epoch=6, last_offset=4, candidate_id=3), "vote", Instant(NOW)
    )
    (failed,) = answered_fetches(solo)
    assert failed.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (failed.leader_id, failed.leader_epoch) == (-1, 7)


def answered_fetches(solo: Solo) -> list[QuorumFetchResponse]:
    """The answered fetches among all answers."""
    replies = [one.response for one in solo.settle(NOW) if isinstance(one, Reply)]
    return [one for one in replies if isinstance(one, QuorumFetchResponse)]


def test_at_the_bound_a_fetch_is_answered_at_once() -> None:
    """So many consumers wait already."""
    solo = leader()
    request = QuorumFetchRequest(None, -1, bytes(16), 6, 4, 6, 2**63 - 1, 500, 1)  # type: ignore[arg-type]
    for token in range(MAX_PARKED_QUORUM_FETCHES):
        solo.quorum.on_request(request, token, Instant(NOW))
    assert answered(solo, NOW) == []
    assert solo.ask(request, NOW) is not None


def test_the_leader_counts_itself_only_up_to_its_flush() -> None:
    """Voter 2 has the record on disk before the leader has."""
    solo = leader()
    ask(solo, fetch_offset=4, last_fetched_epoch=6)
    assert solo.quorum.high_watermark == 4
    solo.quorum.append([b"a"], Instant(NOW), NOW)
    solo.wake(NOW)
    solo.quorum.on_request(
        fetch(epoch=6, fetch_offset=5, last_fetched_epoch=6), "acknowledged", Instant(NOW)
    )
    assert solo.quorum.high_watermark == 4
    solo.flush(NOW)
    assert solo.quorum.high_watermark == 5

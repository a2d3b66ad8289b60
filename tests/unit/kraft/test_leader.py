"""The leader's bookkeeping: high watermark, check quorum, reminders, observers."""

import pytest

from tidelog.env.instant import Instant
from tidelog.kraft.leader import OBSERVER_SESSION_MS, Leader
from tidelog.kraft.messages import ReplicaKey
from tidelog.kraft.quorum_state import ElectionState
from tidelog.limits import MAX_QUORUM_OBSERVERS

FETCH_TIMEOUT_MS = 2000


def make_leader(voter_count: int = 3, *, start: int = 10) -> Leader:
    """Replica 1 leads epoch 4, which begins at offset `start`, since instant 0."""
    return Leader(
        ElectionState(4, 1, ReplicaKey(1)),
        [ReplicaKey(voter_id) for voter_id in range(2, voter_count + 1)],
        epoch_start_offset=start,
        fetch_timeout_ms=FETCH_TIMEOUT_MS,
        now=Instant(0),
    )


def acknowledge(leader: Leader, voter_id: int, offset: int, now: int = 0) -> None:
    """A fetch of a voter at this offset."""
    leader.on_fetch(ReplicaKey(voter_id), offset, 100, Instant(now))


@pytest.mark.parametrize(
    ("own", "others", "majority_end"),
    [
        (20, (), 20),
        (20, (15,), 15),
        (20, (15, 12), 15),
        (12, (20, 15), 15),
        (20, (15, -1), 15),
        (20, (-1, -1), -1),
        (20, (18, 16, 14), 16),
        (20, (18, 16, 14, 12), 16),
        (5, (18, 16, 14, 12), 14),
    ],
)
def test_the_majority_end_is_what_more_than_half_have_on_disk(
    own: int, others: tuple[int, ...], majority_end: int
) -> None:
    """For one to five voters, with and without the leader among the fastest."""
    leader = make_leader(1 + len(others))
    leader.count_own(own)
    for voter_id, offset in enumerate(others, start=2):
        if offset >= 0:
            acknowledge(leader, voter_id, offset)
    assert leader.majority_end_offset() == majority_end


def test_the_high_watermark_begins_with_the_own_epoch() -> None:
    """At the epoch's start a majority holds only what older epochs wrote: not yet."""
    leader = make_leader(start=10)
    leader.count_own(11)
    acknowledge(leader, 2, 10)
    assert not leader.maybe_raise_high_watermark()
    assert leader.high_watermark == -1
    acknowledge(leader, 2, 11)
    assert leader.maybe_raise_high_watermark()
    assert leader.high_watermark == 11


def test_the_high_watermark_does_not_fall_when_a_follower_does() -> None:
    """A voter comes back with an empty disk: what was committed stays so."""
    leader = make_leader()
    leader.count_own(20)
    acknowledge(leader, 2, 20)
    leader.maybe_raise_high_watermark()
    acknowledge(leader, 2, 0)
    assert not leader.maybe_raise_high_watermark()
    assert leader.high_watermark == 20


def test_the_own_end_never_falls() -> None:
    """A leader does not truncate."""
    leader = make_leader()
    leader.count_own(20)
    with pytest.raises(AssertionError, match="own end 20 -> 19"):
        leader.count_own(19)


@pytest.mark.parametrize(
    ("voter_count", "fetches", "deadline"),
    [
        (1, (), None),
        (2, (100,), 3100),
        (3, (100, 0), 3100),
        (3, (100, 700), 3700),
        (3, (0, 0), 3000),
        (5, (900, 700, 0, 0), 3700),
        (5, (900, 0, 0, 0), 3000),
    ],
)
def test_check_quorum_counts_from_the_oldest_fetch_a_majority_needs(
    voter_count: int, fetches: tuple[int, ...], deadline: int | None
) -> None:
    """1.5 fetch timeouts after it; a single voter is its own majority. 0: never fetched."""
    leader = make_leader(voter_count)
    for voter_id, fetched_at in enumerate(fetches, start=2):
        if fetched_at:
            leader.on_contact(ReplicaKey(voter_id), Instant(fetched_at))
    assert leader.deadline() == deadline


def test_a_silent_voter_is_reminded_every_half_fetch_timeout() -> None:
    """At once when elected; a fetch moves the reminder on, a failure brings it back."""
    leader = make_leader()
    assert [planned.due for planned in leader.planned_requests()] == [0, 0]
    leader.on_begin_sent(2, Instant(0))
    leader.on_begin_sent(3, Instant(0))
    assert [planned.due for planned in leader.planned_requests()] == [1000, 1000]
    leader.on_contact(ReplicaKey(2), Instant(500))
    leader.on_begin_failed(3, Instant(7))
    assert [planned.due for planned in leader.planned_requests()] == [1500, 7]


def test_caught_up_is_reaching_what_the_leader_had() -> None:
    """Reaching the leader's end of the fetch before proves it for that earlier time."""
    leader = make_leader()
    voter = leader.voters[2]
    replica = ReplicaKey(2)
    leader.on_fetch(replica, 0, 10, Instant(100))
    assert voter.last_caught_up_at is None
    leader.on_fetch(replica, 10, 12, Instant(200))
    assert voter.last_caught_up_at == 100
    leader.on_fetch(replica, 12, 12, Instant(300))
    assert voter.last_caught_up_at == 300


def test_successors_are_ordered_by_progress() -> None:
    """Who has most replaces the leader soonest; the lower id when equal."""
    leader = make_leader(4)
    acknowledge(leader, 3, 20)
    acknowledge(leader, 4, 20)
    keys = {voter_id: ReplicaKey(voter_id) for voter_id in (2, 3, 4)}
    assert [key.node_id for key in leader.by_progress(keys)] == [3, 4, 2]


def test_observers_are_described_until_they_are_silent_for_long() -> None:
    """They never count for the high watermark."""
    leader = make_leader()
    leader.count_own(20)
    acknowledge(leader, 7, 20, now=100)
    assert leader.majority_end_offset() == -1
    assert [one.node_id for one in leader.live_observers(Instant(200))] == [7]
    assert leader.live_observers(Instant(101 + OBSERVER_SESSION_MS)) == []


def test_observers_beyond_the_bound_are_not_remembered() -> None:
    """Served by the fetch server, but not listed; consumers (-1) never are."""
    leader = make_leader()
    for node_id in range(100, 101 + MAX_QUORUM_OBSERVERS):
        acknowledge(leader, node_id, 0)
    acknowledge(leader, -1, 0)
    assert len(leader.observers) == MAX_QUORUM_OBSERVERS

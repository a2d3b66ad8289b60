"""Changes of role, waits, and the high watermark: what elections and replication share."""

from dataclasses import replace

import pytest

from tests.unit.kraft.solo import Solo, voters_of
from tidelog.env.instant import Instant
from tidelog.kraft.quorum_state import ElectionState, RoleName
from tidelog.kraft.roles import Unattached
from tidelog.model import METADATA_PARTITION, Endpoint


def started(state: ElectionState | None = None, **options: object) -> Solo:
    """Replica 1 in this state."""
    solo = Solo(state=state, **options)  # type: ignore[arg-type]
    solo.start()
    return solo


def test_of_several_listeners_the_one_that_voters_use_is_dialled() -> None:
    """By its name, wherever it stands in the list; a node that has none takes the first."""
    solo = started()
    other, usual = Endpoint("SECURE", "n4", 9999), Endpoint("CONTROLLER", "n4", 9093)
    assert solo.core.choose((other, usual)) == other
    mine = (Endpoint("CONTROLLER", "n1", 9093),)
    solo.core.identity = replace(solo.core.identity, endpoints=mine)
    assert solo.core.choose((other, usual)) == usual
    assert solo.core.choose((other,)) == other


@pytest.mark.parametrize(
    ("epoch", "leader_id", "moved", "role", "leader_after", "epoch_after"),
    [
        (2, 2, False, RoleName.UNATTACHED, -1, 3),
        (3, -1, False, RoleName.UNATTACHED, -1, 3),
        (3, 2, True, RoleName.FOLLOWER, 2, 3),
        (3, 1, False, RoleName.UNATTACHED, -1, 3),
        (4, -1, True, RoleName.UNATTACHED, -1, 4),
        (4, 2, True, RoleName.FOLLOWER, 2, 4),
        (4, 1, True, RoleName.UNATTACHED, -1, 4),
        (4, 99, True, RoleName.UNATTACHED, -1, 4),
    ],
)
def test_what_others_know_moves_a_replica_on(
    epoch: int,
    leader_id: int,
    moved: bool,
    role: RoleName,
    leader_after: int,
    epoch_after: int,
) -> None:
    """From epoch 3 without a leader. Itself and strangers are nobody to follow."""
    solo = started(ElectionState(3))
    assert solo.core.maybe_move(epoch, leader_id, Instant(5), "told") is moved
    assert (solo.quorum.role, solo.core.role.leader_id, solo.quorum.epoch) == (
        role,
        leader_after,
        epoch_after,
    )


def test_moving_on_keeps_the_turn_of_an_unattached_voter() -> None:
    """Whoever moves the epoch on and on must not keep the others from asking."""
    solo = started(ElectionState(3))
    turn = solo.core.role.deadline()
    solo.core.maybe_move(4, -1, Instant(5), "told")
    assert solo.core.role.deadline() == turn


def test_a_forbidden_change_of_role_stops_the_node() -> None:
    """From unattached to candidate without a pre-vote."""
    solo = started()
    with pytest.raises(AssertionError, match="ValidTransitions: unattached -> candidate"):
        solo.core.become_candidate(Instant(5), "in a hurry")


def test_election_timeouts_are_spread_over_one_to_two_timeouts() -> None:
    """All of [t, 2t), nothing outside."""
    core = started().core
    drawn = [core.draw_election_timeout(Instant(10_000)) - 10_000 for _ in range(500)]
    assert 1000 <= min(drawn) < 1050
    assert 1950 < max(drawn) < 2000


def test_the_high_watermark_only_rises_and_stays_within_the_log() -> None:
    """And the log learns it."""
    solo = started(ElectionState(1), log_epochs=(1, 1, 1))
    solo.core.raise_high_watermark(2)
    assert solo.log.high_watermark == 2
    with pytest.raises(AssertionError, match="HighWatermarkMonotonic: 2 -> 2"):
        solo.core.raise_high_watermark(2)
    with pytest.raises(AssertionError, match="4 beyond 3"):
        solo.core.raise_high_watermark(4)


def test_a_resigned_leader_is_no_leader_to_others() -> None:
    """Its own promise still names it; its answers do not."""
    solo = started(ElectionState(3, 1, started().core.identity.key))
    assert solo.core.role.election.leader_id == 1
    assert solo.core.public_leader_id == -1
    assert solo.core.leader_endpoint is None


def test_each_change_of_role_says_why() -> None:
    """One line with the offsets of the moment."""
    solo = started(ElectionState(3))
    solo.trace_lines()
    solo.core.maybe_move(4, 2, Instant(5), "told by 3")
    assert solo.trace_lines() == [
        "quorum become_follower: follower (told by 3) epoch=4 leader=2 voted=-1 log_end=0 "
        "high_watermark=0"
    ]


def test_a_replica_that_is_no_voter_observes() -> None:
    """It never has a turn."""
    solo = started(own_id=9)
    assert not solo.core.is_voter
    assert isinstance(solo.core.role, Unattached)
    assert solo.core.role.deadline() is None
    assert solo.core.peers == tuple(voters_of(3))
    assert solo.log.topic_partition == METADATA_PARTITION

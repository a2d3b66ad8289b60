"""Changes of role: which are allowed, and what a message from others makes of a replica."""

import pytest

from tests.unit.kraft.solo import Solo
from tidelog.env.instant import Instant
from tidelog.kraft import transitions
from tidelog.kraft.events import RoleCause, RoleReason
from tidelog.kraft.quorum_state import ElectionState, RoleName

NAMED = RoleCause(RoleReason.NAMED_BY_PEER, 3)


def started(state: ElectionState | None = None, **options: object) -> Solo:
    """Replica 1 in this state."""
    solo = Solo(state=state, **options)  # type: ignore[arg-type]
    solo.start()
    return solo


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
    epoch: int, leader_id: int, moved: bool, role: RoleName, leader_after: int, epoch_after: int
) -> None:
    """From epoch 3 without a leader. It follows neither itself nor unknown nodes."""
    solo = started(ElectionState(3))
    assert transitions.maybe_transition(solo.core, epoch, leader_id, Instant(5), NAMED) is moved
    assert (solo.quorum.role.name, solo.core.role.leader_id, solo.quorum.epoch) == (
        role,
        leader_after,
        epoch_after,
    )


def test_moving_on_keeps_the_turn_of_an_unattached_voter() -> None:
    """A replica that raises the epoch on and on must not keep the others from asking."""
    solo = started(ElectionState(3))
    turn = solo.core.role.deadline()
    transitions.maybe_transition(solo.core, 4, -1, Instant(5), NAMED)
    assert solo.core.role.deadline() == turn


def test_a_forbidden_change_of_role_stops_the_node() -> None:
    """From unattached to candidate without a pre-vote."""
    solo = started()
    with pytest.raises(AssertionError, match="ValidTransitions: unattached -> candidate"):
        transitions.become_candidate(solo.core, Instant(5), NAMED)


def test_each_change_of_role_has_its_cause() -> None:
    """One line with the offsets of the moment."""
    solo = started(ElectionState(3))
    solo.trace_lines()
    transitions.maybe_transition(
        solo.core, 4, 2, Instant(5), RoleCause(RoleReason.NAMED_BY_PEER, 3)
    )
    assert solo.trace_lines() == [
        "quorum become_follower: follower (learnt from 3) epoch=4 leader=2 voted=-1 log_end=0 "
        "high_watermark=0"
    ]

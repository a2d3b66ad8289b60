"""Goal: what programs ask of the quorum's events are members and fields, and the line has both."""

import pytest

from tests.unit.kraft.solo import Solo, pre_vote, vote
from tidelog.kraft import transitions
from tidelog.kraft.events import (
    BecameUnattached,
    CleaningCause,
    CleaningReason,
    RoleCause,
    RoleReason,
    VoteGranted,
    VoteReason,
    VoteRefused,
)

FIGURES = {"epoch": 4, "leader": 2, "voted": -1, "log_end": 7, "high_watermark": 6}


def test_a_change_of_role_has_a_reason_and_shows_its_numbers() -> None:
    event = BecameUnattached(cause=RoleCause(RoleReason.LEADER_SILENT, 2), **FIGURES)
    assert event.reason is RoleReason.LEADER_SILENT
    assert event.text() == (
        "quorum become_unattached: unattached (leader 2 is silent) epoch=4 leader=2 voted=-1 "
        "log_end=7 high_watermark=6"
    )


@pytest.mark.parametrize("reason", RoleReason)
def test_each_reason_for_a_role_has_its_numbers(reason: RoleReason) -> None:
    assert "{" not in str(RoleCause(reason, 3, granted_count=2, voter_count=3))


@pytest.mark.parametrize("reason", CleaningReason)
def test_each_reason_for_cleaning_has_its_numbers(reason: CleaningReason) -> None:
    assert "{" not in str(CleaningCause(reason, 2, 1, "torn"))


def test_votes_are_events_of_two_types() -> None:
    """Granted and refused, with the reason and whom it names."""
    solo = Solo()
    solo.start()
    solo.sink.events.clear()
    for request in (pre_vote(), vote(), vote(candidate_id=3), vote(epoch=0, last_epoch=-1)):
        solo.ask(request, 1)
    found = [
        (type(event), event.reason, event.peer_id)
        for event in solo.sink.events
        if isinstance(event, VoteGranted | VoteRefused)
    ]
    assert found == [
        (VoteGranted, VoteReason.LOG_FRESH, -1),
        (VoteGranted, VoteReason.LOG_FRESH, -1),
        (VoteRefused, VoteReason.VOTED_FOR_OTHER, 2),
        (VoteRefused, VoteReason.INVALID_REQUEST, -1),
    ]


def test_roles_are_named_after_the_functions_that_decide() -> None:
    """The handler of each class of events stands in `transitions.py`."""
    for event in BecameUnattached.__base__.__subclasses__():
        assert hasattr(transitions, event.handler), event

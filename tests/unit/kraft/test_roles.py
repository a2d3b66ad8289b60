"""How each role answers a request for a vote, and how votes are counted."""

import pytest

from tests.unit.kraft.solo import pre_vote, vote
from tidelog.env.instant import Instant
from tidelog.kraft.events import RoleReason
from tidelog.kraft.leader import Leader
from tidelog.kraft.messages import ReplicaKey
from tidelog.kraft.quorum_state import ElectionState
from tidelog.kraft.roles import (
    Ballot,
    Candidate,
    Follower,
    PlannedRequest,
    Prospective,
    Resigned,
    Role,
    Unattached,
    is_same_replica,
)
from tidelog.model import Uuid

LATER = Instant(1000)
CANDIDATE = ReplicaKey(2, Uuid((2).to_bytes(16, "big")))
OTHER = ReplicaKey(3, Uuid((3).to_bytes(16, "big")))
OWN = ReplicaKey(1)


def role_of(name: str) -> Role:
    """A role of replica 1 in epoch 1."""
    voters = (1, 2, 3)
    in_contact = Follower(ElectionState(1, 3), LATER)
    in_contact.is_in_doubt = False
    roles = {
        "unattached": Unattached(ElectionState(1), LATER, 2),
        "unattached, voted for it": Unattached(ElectionState(1, -1, CANDIDATE), LATER, 2),
        "unattached, voted other": Unattached(ElectionState(1, -1, OTHER), LATER, 2),
        "unattached, leader known": Unattached(ElectionState(1, 3), LATER, 2),
        "prospective": Prospective(ElectionState(1), 1, voters, LATER),
        "prospective, leader known": Prospective(ElectionState(1, 3), 1, voters, LATER),
        "follower in doubt": Follower(ElectionState(1, 3), LATER),
        "follower": in_contact,
        "candidate": Candidate(ElectionState(1, -1, OWN), 1, voters, LATER),
        "resigned": Resigned(ElectionState(1, 1, OWN), (CANDIDATE, OTHER), LATER),
        "leader": Leader(
            ElectionState(1, 1, OWN),
            (CANDIDATE, OTHER),
            epoch_start_offset=0,
            fetch_timeout_ms=2000,
            now=Instant(0),
        ),
    }
    return roles[name]


@pytest.mark.parametrize(
    ("name", "pre_vote_granted", "vote_granted"),
    [
        ("unattached", True, True),
        ("unattached, voted for it", True, True),
        ("unattached, voted other", True, False),
        ("unattached, leader known", True, False),
        ("prospective", True, True),
        ("prospective, leader known", True, False),
        ("follower in doubt", True, False),
        ("follower", False, False),
        ("candidate", True, False),
        ("resigned", True, False),
        ("leader", False, False),
    ],
)
def test_the_table_of_answers(name: str, pre_vote_granted: bool, vote_granted: bool) -> None:
    """With a fresh log as in the table, with a stale log never."""
    role = role_of(name)
    assert role.decide_vote(pre_vote(), log_is_fresh=True).granted is pre_vote_granted
    assert role.decide_vote(vote(), log_is_fresh=True).granted is vote_granted
    assert not role.decide_vote(pre_vote(), log_is_fresh=False).granted
    assert not role.decide_vote(vote(), log_is_fresh=False).granted


def test_a_directory_that_is_not_known_matches_any() -> None:
    """Static voters are known by id; a different known directory is a different voter."""
    assert is_same_replica(ReplicaKey(2), CANDIDATE)
    assert is_same_replica(CANDIDATE, CANDIDATE)
    assert not is_same_replica(ReplicaKey(2, OTHER.directory_id), CANDIDATE)
    assert not is_same_replica(ReplicaKey(3), CANDIDATE)


@pytest.mark.parametrize(("voter_count", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_ballot_is_won_by_a_majority(voter_count: int, majority: int) -> None:
    """One vote less does not win."""
    ballot = Ballot(range(1, voter_count + 1))
    for voter_id in range(1, majority):
        ballot.record(voter_id, granted=True)
    assert not ballot.is_won
    ballot.record(majority, granted=True)
    assert ballot.is_won
    assert not ballot.is_lost


def test_a_ballot_is_lost_when_too_few_are_left() -> None:
    """With five voters three refusals lose; two do not, unless one more is absent."""
    ballot = Ballot((1, 2, 3, 4, 5))
    ballot.record(1, granted=True)
    ballot.record(2, granted=False)
    ballot.record(3, granted=False)
    assert not ballot.is_lost
    assert not ballot.can_be_won_without((5,))
    ballot.record(4, granted=False)
    assert ballot.is_lost


def test_a_granted_vote_is_not_taken_back_and_others_do_not_count() -> None:
    """A late refusal after a yes changes nothing; voter 9 is none."""
    ballot = Ballot((1, 2, 3))
    ballot.record(2, granted=True)
    ballot.record(2, granted=False)
    ballot.record(9, granted=True)
    assert ballot.granting == [2]
    assert ballot.undecided == [1, 3]
    assert str(ballot.cause(RoleReason.ELECTED)) == "elected by 1 of 3"


def test_a_campaign_asks_the_voters_that_have_not_answered() -> None:
    """Not itself, and no voter twice."""
    role = Prospective(ElectionState(1), 1, (1, 2, 3), LATER)
    assert role.planned_requests() == [PlannedRequest(2, Instant(0)), PlannedRequest(3, Instant(0))]
    role.ballot.record(2, granted=False)
    assert role.planned_requests() == [PlannedRequest(3, Instant(0))]


def test_a_prospective_that_stepped_back_waits_for_that_only_when_it_has_won() -> None:
    """Before, its deadline is the election timeout."""
    role = Prospective(ElectionState(1), 1, (1, 2, 3), LATER)
    role.yield_until = Instant(400)
    assert role.deadline() == LATER
    role.ballot.record(2, granted=True)
    assert role.deadline() == 400


def test_resignations_go_out_until_confirmed() -> None:
    """Each successor confirms for itself."""
    role = Resigned(ElectionState(1, 1, OWN), (OTHER, CANDIDATE), LATER)
    assert [planned.peer_id for planned in role.planned_requests()] == [3, 2]
    role.on_acknowledged(3)
    assert [planned.peer_id for planned in role.planned_requests()] == [2]


def test_a_follower_does_not_ask_a_leader_that_resigned() -> None:
    """It is none any more."""
    role = Follower(ElectionState(1, 3), LATER)
    assert role.planned_requests() == [PlannedRequest(3, Instant(0))]
    role.leader_has_resigned = True
    assert role.planned_requests() == []

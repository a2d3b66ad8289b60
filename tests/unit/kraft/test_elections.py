"""Single decisions of elections: whom to believe, whom to elect, when to ask."""

import pytest

from tests.unit.kraft.solo import (
    CLUSTER_ID,
    Solo,
    answer_fetch,
    begin,
    follower,
    pre_vote,
    role,
    vote,
)
from tidelog.config import QuorumConfig
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, UsageError
from tidelog.kraft.messages import (
    EndQuorumEpochRequest,
    QuorumFetchRequest,
    ReplicaKey,
    Request,
    VoteRequest,
    VoteResponse,
)
from tidelog.kraft.quorum_state import ElectionState, RoleName
from tidelog.kraft.roles import Campaign, Follower
from tidelog.kraft.timers import LOST_WAIT_MS, SUSPICION_JITTER_MS, YIELD_MS

# The start -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (None, RoleName.UNATTACHED),
        (ElectionState(3, -1, ReplicaKey(2)), RoleName.UNATTACHED),
        (ElectionState(3, -1, ReplicaKey(1)), RoleName.UNATTACHED),
        (ElectionState(3, 2, ReplicaKey(1)), RoleName.FOLLOWER),
        (ElectionState(3, 1, ReplicaKey(1)), RoleName.RESIGNED),
        (ElectionState(3, 99), RoleName.UNATTACHED),
    ],
)
def test_the_first_role_follows_from_the_durable_state(
    state: ElectionState | None, expected: RoleName
) -> None:
    """Promises are kept; a leader does not lead again; one that is not a voter does not count."""
    solo = Solo(state=state)
    solo.start()
    assert role(solo) is expected
    assert solo.core.role.election == (state or ElectionState())


def test_a_log_that_is_ahead_of_the_state_file_sets_the_epoch() -> None:
    """The file was lost: going back to epoch 0 could elect a second leader of epoch 5."""
    solo = Solo(log_epochs=(4, 5))
    solo.start()
    assert solo.quorum.epoch == 5


def test_the_first_pre_vote_comes_soon_and_later_ones_after_an_election_timeout() -> None:
    """Within 150 ms of the start; in [1000, 2000) once a leader was known."""
    solo = Solo()
    solo.start()
    deadline = solo.core.role.deadline()
    assert deadline is not None
    assert deadline <= 150
    solo.ask(begin())
    solo.ask(vote(epoch=5, last_epoch=0, candidate_id=3), now=10)
    later = solo.core.role.deadline()
    assert later is not None
    assert 1010 <= later < 2010


def test_a_leader_from_the_disk_is_not_trusted_for_long() -> None:
    """It does not answer: a pre-vote after 150 ms; it refuses the connection: within 50 ms."""
    silent = Solo(state=ElectionState(1, 2), log_epochs=(1,))
    silent.start()
    silent.settle(150)
    assert role(silent) is RoleName.PROSPECTIVE
    refused = Solo(state=ElectionState(1, 2), log_epochs=(1,))
    refused.start()
    (sent,) = refused.sent(0)
    refused.quorum.on_response(2, sent.request, None, Instant(1))
    refused.settle(1 + SUSPICION_JITTER_MS)
    assert role(refused) is RoleName.PROSPECTIVE


# Campaigns -----------------------------------------------------------------------------------


def campaign(solo: Solo, now: int = 200) -> list[Request]:
    """Lets the replica ask for pre-votes; the requests to voters 2 and 3."""
    solo.start()
    solo.settle(0)
    requests = [sent.request for sent in solo.sent(now)]
    assert role(solo) is RoleName.PROSPECTIVE
    return requests


def give(solo: Solo, peer_id: int, request: Request, now: int, *, granted: bool) -> None:
    """A voter answers."""
    assert isinstance(request, VoteRequest)
    answer = VoteResponse(ErrorCode.NONE, -1, request.epoch, granted)
    solo.quorum.on_response(peer_id, request, answer, Instant(now))


def test_a_majority_of_pre_votes_makes_a_candidate_and_of_votes_a_leader() -> None:
    """Voter 2 grants twice, voter 3 does not answer. The candidate asks in the next epoch."""
    solo = Solo()
    requests = campaign(solo)
    give(solo, 2, requests[0], 201, granted=True)
    assert role(solo) is RoleName.CANDIDATE
    votes = [sent for sent in solo.sent(201) if isinstance(sent.request, VoteRequest)]
    assert [(sent.peer_id, sent.request.epoch, sent.request.pre_vote) for sent in votes] == [
        (2, 1, False),
        (3, 1, False),
    ]
    give(solo, 2, votes[0].request, 202, granted=True)
    assert role(solo) is RoleName.LEADER
    assert solo.core.state_file.written == ElectionState(1, 1, solo.core.identity.key)


def test_a_candidate_does_not_lead_before_its_own_vote_is_durable() -> None:
    """All say yes, but its own vote is still on its way to the disk, and so are the requests:
    nothing was even asked."""
    solo = Solo()
    requests = campaign(solo)
    give(solo, 2, requests[0], 201, granted=True)
    assert not solo.wake(201)
    assert role(solo) is RoleName.CANDIDATE
    candidate = solo.core.role
    assert isinstance(candidate, Campaign)
    candidate.ballot.record(2, granted=True)
    solo.wake(202)
    assert candidate.ballot.granting == [2]
    solo.flush(203)
    assert role(solo) is RoleName.LEADER


def test_a_lost_pre_vote_leads_back() -> None:
    """No leader known: unattached. A leader known: its follower again."""
    lone = Solo()
    for peer_id, request in enumerate(campaign(lone), start=2):
        give(lone, peer_id, request, 201, granted=False)
    assert role(lone) is RoleName.UNATTACHED
    following = follower()
    # The leader did not answer the last fetch either, so it is asked a little later than voter 3.
    for now in (2000, 2020):
        for sent in following.sent(now):
            give(following, sent.peer_id, sent.request, now, granted=False)
    assert role(following) is RoleName.FOLLOWER
    assert following.quorum.leader_id == 2


def test_a_candidate_that_cannot_win_does_not_wait_for_long() -> None:
    """Voter 2 refuses and voter 3 refuses connections: ask again within 300 ms."""
    solo = Solo()
    requests = campaign(solo)
    give(solo, 2, requests[0], 201, granted=True)
    votes = [sent for sent in solo.sent(201) if isinstance(sent.request, VoteRequest)]
    give(solo, 2, votes[0].request, 202, granted=False)
    deadline = solo.core.role.deadline()
    assert deadline is not None
    assert deadline > 1000
    solo.quorum.on_response(3, votes[1].request, None, Instant(203))
    deadline = solo.core.role.deadline()
    assert deadline is not None
    assert deadline <= 203 + LOST_WAIT_MS[1]
    solo.settle(deadline)
    assert role(solo) is RoleName.PROSPECTIVE
    assert solo.quorum.epoch == 1


def test_an_old_voter_without_pre_votes_is_asked_for_a_real_one() -> None:
    """UNSUPPORTED_VERSION cannot be a refusal."""
    solo = Solo()
    requests = campaign(solo)
    answer = VoteResponse(ErrorCode.UNSUPPORTED_VERSION, -1, 0, False)
    solo.quorum.on_response(2, requests[0], answer, Instant(201))
    assert role(solo) is RoleName.CANDIDATE


def test_an_answer_that_names_a_leader_or_a_higher_epoch_is_followed() -> None:
    """Whatever was asked."""
    named, moved = Solo(), Solo()
    request = campaign(named)[0]
    answer = VoteResponse(ErrorCode.NONE, 3, 0, False)
    named.quorum.on_response(2, request, answer, Instant(201))
    assert (role(named), named.quorum.leader_id) == (RoleName.FOLLOWER, 3)
    request = campaign(moved)[0]
    answer = VoteResponse(ErrorCode.FENCED_LEADER_EPOCH, -1, 8, False)
    moved.quorum.on_response(2, request, answer, Instant(201))
    assert (role(moved), moved.quorum.epoch) == (RoleName.UNATTACHED, 8)


def test_a_voter_of_another_cluster_teaches_nothing_and_is_reported_to_the_operator() -> None:
    """Its epoch and leader are another cluster's; a vote refused for it is a refused vote."""
    solo = Solo()
    request = campaign(solo)[0]
    solo.trace_lines()
    answer = VoteResponse(ErrorCode.INCONSISTENT_CLUSTER_ID, 3, 8, False)
    solo.quorum.on_response(2, request, answer, Instant(201))
    assert (role(solo), solo.quorum.epoch, solo.quorum.leader_id) == (RoleName.PROSPECTIVE, 0, -1)
    (line,) = solo.trace_lines()
    assert "the voter is of another cluster; hint: " in line
    assert f"voter=2 cluster_id={CLUSTER_ID}" in line


def test_the_better_claim_goes_first() -> None:
    """Both ask. Replica 1 has the lower id and goes on; voter 3 with a longer log makes it wait."""
    first, second = Solo(), Solo()
    requests = campaign(first)
    first.ask(pre_vote(candidate_id=3), now=201)
    give(first, 2, requests[0], 202, granted=True)
    assert role(first) is RoleName.CANDIDATE
    requests = campaign(second)
    second.ask(pre_vote(candidate_id=3, last_offset=9), now=201)
    give(second, 2, requests[0], 202, granted=True)
    second.settle(201 + YIELD_MS - 1)
    assert role(second) is RoleName.PROSPECTIVE
    second.settle(201 + YIELD_MS)
    assert role(second) is RoleName.CANDIDATE


def test_a_lost_pre_vote_does_not_lead_back_to_a_leader_that_only_the_disk_names() -> None:
    """The voters do not name it any more, so its address is not known."""
    solo = Solo(state=ElectionState(1, 9), log_epochs=(1,))
    solo.start()
    for expected in (RoleName.UNATTACHED, RoleName.PROSPECTIVE, RoleName.UNATTACHED):
        assert role(solo) is expected
        solo.settle(solo.core.role.deadline() or 0)
    assert solo.core.role.leader_id == 9
    assert not [one for one in solo.sent(10_000) if one.peer_id == 9]


def test_contact_with_the_leader_ends_a_pre_vote() -> None:
    """It lives: no need to replace it."""
    solo = follower()
    solo.settle(2000)
    assert role(solo) is RoleName.PROSPECTIVE
    solo.ask(begin(), now=2001)
    assert (role(solo), solo.quorum.leader_id) == (RoleName.FOLLOWER, 2)


# Doubts and deadlines -------------------------------------------------------------------------


def test_a_suspected_leader_is_replaced_at_once() -> None:
    """Within 50 ms, and until then pre-votes of others are granted."""
    solo = follower()
    solo.quorum.on_peer_suspected(2, Instant(300))
    assert isinstance(solo.core.role, Follower)
    assert solo.core.role.is_in_doubt
    solo.settle(300 + SUSPICION_JITTER_MS)
    assert role(solo) is RoleName.PROSPECTIVE


def test_suspicions_of_others_and_a_detector_that_is_off_change_nothing() -> None:
    """Voter 3 does not lead; a grace of 0 is Kafka's behaviour."""
    solo = follower()
    solo.quorum.on_peer_suspected(3, Instant(300))
    off = follower(config=QuorumConfig(disconnect_grace_ms=0))
    off.quorum.on_peer_suspected(2, Instant(300))
    for replica in (solo, off):
        replica.settle(400)
        assert role(replica) is RoleName.FOLLOWER


def test_a_sign_of_life_ends_the_doubt() -> None:
    """The fetch in flight is answered after all."""
    solo = follower()
    (in_flight,) = solo.core.requests.outstanding(QuorumFetchRequest)
    solo.quorum.on_peer_suspected(2, Instant(300))
    answer_fetch(solo, in_flight, 301)
    solo.settle(300 + SUSPICION_JITTER_MS)
    assert role(solo) is RoleName.FOLLOWER


def test_a_leader_without_fetches_resigns() -> None:
    """After 1.5 fetch timeouts, and announces it to all; a single voter never does."""
    solo = Solo()
    solo.lead()
    deadline = solo.core.role.deadline()
    assert deadline is not None
    solo.settle(deadline - 1)
    assert role(solo) is RoleName.LEADER
    # No voter answered the reminders, so the resignations wait for the end of a pause.
    outputs = solo.sent(deadline) + solo.sent(deadline + 400)
    assert role(solo) is RoleName.RESIGNED
    assert solo.quorum.leader_id == -1
    assert [one.peer_id for one in outputs if isinstance(one.request, EndQuorumEpochRequest)] == [
        2,
        3,
    ]
    alone = Solo(voter_count=1)
    alone.lead()
    alone.settle(1_000_000)
    assert alone.quorum.is_leader


def test_a_resigned_leader_begins_anew_in_the_next_epoch() -> None:
    """It must not become prospective in the epoch it led."""
    solo = Solo()
    epoch = solo.lead()
    solo.quorum.resign(Instant(500))
    assert role(solo) is RoleName.RESIGNED
    solo.settle(2500)
    assert solo.quorum.epoch == epoch + 1
    assert role(solo) is not RoleName.RESIGNED


# A log that has lost records -----------------------------------------------------------------


def test_a_voter_that_lost_acknowledged_records_neither_votes_nor_asks_for_votes() -> None:
    """MemoryComesBackFirst: a candidate that lacks committed records could win by its vote. The
    leader's records give it back."""
    solo = Solo(state=ElectionState(3), log_epochs=(2,))
    solo.quorum.distrust_log()
    solo.start()
    for is_trial in (True, False):
        asked = vote(epoch=4, last_epoch=3, last_offset=9, candidate_id=3, pre_vote=is_trial)
        answer = solo.ask(asked)
        assert isinstance(answer, VoteResponse)
        assert not answer.granted
    solo.settle(10_000)
    assert role(solo) is RoleName.UNATTACHED


def test_a_single_voter_cannot_get_its_records_back() -> None:
    """It refuses to start, with a hint."""
    solo = Solo(voter_count=1)
    solo.quorum.distrust_log()
    with pytest.raises(UsageError) as refused:
        solo.quorum.start(Instant(0))
    assert "intact copy" in refused.value.hint

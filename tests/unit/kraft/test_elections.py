"""Single decisions of elections: whom to believe, whom to elect, when to ask."""

from collections.abc import Callable

import pytest

from tests.unit.kraft.cluster import CLUSTER_ID
from tests.unit.kraft.solo import Solo, begin, end, fetch, fetched, pre_vote, vote
from tidelog.config import QuorumConfig
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, UsageError
from tidelog.kraft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    QuorumFetchRequest,
    ReplicaKey,
    Reply,
    Request,
    VoteRequest,
    VoteResponse,
)
from tidelog.kraft.quorum_state import ElectionState, RoleName
from tidelog.kraft.roles import Campaign, Follower
from tidelog.kraft.timers import (
    LOST_WAIT_MS,
    SUSPICION_JITTER_MS,
    YIELD_MS,
    end_epoch_backoff_ms,
)
from tidelog.model import ZERO_UUID, Endpoint, Uuid

WRONG_DIRECTORY = Uuid(b"\x77" * 16)


def follower(**options: object) -> Solo:
    """Replica 1 follows voter 2 in epoch 1 and has fetched from it."""
    solo = Solo(state=ElectionState(1, 2), log_epochs=(1,), **options)  # type: ignore[arg-type]
    solo.start()
    (sent,) = solo.sent(0)
    answer_fetch(solo, sent.request, 0)
    return solo


def answer_fetch(solo: Solo, request: Request, now: int, **changes: object) -> None:
    """The leader answers a fetch."""
    solo.quorum.on_response(2, request, fetched(**changes), Instant(now))
    solo.settle(now)


def role(solo: Solo) -> RoleName:
    """The replica's role."""
    return solo.quorum.role


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
    """Promises are kept; who led does not lead again; a leader that is no voter is nobody."""
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


# Answering votes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_value", "error"),
    [
        (vote(cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (vote(epoch=4, last_epoch=4), ErrorCode.INVALID_REQUEST),
        (pre_vote(epoch=4, last_epoch=5), ErrorCode.INVALID_REQUEST),
        (vote(epoch=4, last_epoch=-1), ErrorCode.INVALID_REQUEST),
        (vote(epoch=4, last_offset=-1), ErrorCode.INVALID_REQUEST),
        (vote(epoch=4, candidate_id=1), ErrorCode.INVALID_REQUEST),
        (vote(epoch=2), ErrorCode.FENCED_LEADER_EPOCH),
        (pre_vote(epoch=2), ErrorCode.FENCED_LEADER_EPOCH),
        (vote(epoch=4, voter_id=3), ErrorCode.INVALID_VOTER_KEY),
        (vote(epoch=4, voter_directory_id=WRONG_DIRECTORY), ErrorCode.INVALID_VOTER_KEY),
        (vote(epoch=4, cluster_id=None, voter_id=-1), ErrorCode.NONE),
        (pre_vote(epoch=3, last_epoch=3), ErrorCode.NONE),
    ],
)
def test_votes_are_checked_in_order(request_value: VoteRequest, error: ErrorCode) -> None:
    """Epoch 3, nobody leads. Refused or not, the answer says what this voter knows."""
    solo = Solo(state=ElectionState(3))
    solo.start()
    answer = solo.ask(request_value)
    assert isinstance(answer, VoteResponse)
    assert (answer.error_code, answer.granted) == (error, error is ErrorCode.NONE)
    moved = request_value.epoch > 3 and error in (ErrorCode.NONE, ErrorCode.INVALID_VOTER_KEY)
    assert answer.leader_epoch == (request_value.epoch if moved else 3)


@pytest.mark.parametrize(
    ("last_epoch", "last_offset", "granted"),
    [(2, 3, True), (2, 4, True), (3, 1, True), (2, 2, False), (1, 9, False)],
)
def test_a_vote_goes_to_a_log_at_least_as_long(
    last_epoch: int, last_offset: int, granted: bool
) -> None:
    """The own log ends at offset 3 in epoch 2; the epoch counts first."""
    solo = Solo(state=ElectionState(3), log_epochs=(1, 2, 2))
    solo.start()
    answer = solo.ask(vote(epoch=4, last_epoch=last_epoch, last_offset=last_offset))
    assert isinstance(answer, VoteResponse)
    assert answer.granted is granted


def test_a_vote_is_given_once_in_an_epoch_also_after_a_restart() -> None:
    """Voter 3 comes second. A repeated request of the first is granted again."""
    solo = Solo()
    solo.start()
    answers = [solo.ask(vote(candidate_id=2)), solo.ask(vote(candidate_id=3))]
    restarted = Solo(state=solo.core.state_file.durable)
    restarted.start()
    answers += [restarted.ask(vote(candidate_id=3)), restarted.ask(vote(candidate_id=2))]
    assert [isinstance(one, VoteResponse) and one.granted for one in answers] == [
        True,
        False,
        False,
        True,
    ]


def test_an_answer_waits_for_the_disk() -> None:
    """Nothing leaves before the vote is durable, then it does."""
    solo = Solo()
    solo.start()
    solo.wake(0)
    solo.quorum.on_request(vote(), "asked", Instant(1))
    assert not [one for one in solo.wake(1) if isinstance(one, Reply)]
    solo.flush(2)
    assert [one.reply_to for one in solo.wake(2) if isinstance(one, Reply)] == ["asked"]


def test_an_observer_does_not_vote() -> None:
    """It is not in the voter set."""
    solo = Solo(own_id=9)
    solo.start()
    answer = solo.ask(vote(voter_id=9))
    assert isinstance(answer, VoteResponse)
    assert answer.error_code is ErrorCode.INCONSISTENT_VOTER_SET


@pytest.mark.parametrize("own_id", [1, 9], ids=["a voter", "an observer"])
@pytest.mark.parametrize("names_disk", [True, False])
def test_a_request_that_names_this_disk_comes_from_voters_in_a_log(
    own_id: int, names_disk: bool
) -> None:
    """By its own log the voters are configured, and neither replica 8 nor an observer is one. Only
    a voter set in a log could tell the sender whose disk it asks; all others are refused, and what
    they say of an address is not learned."""
    solo = Solo(own_id=own_id, state=ElectionState(3))
    solo.start()
    disk = solo.core.identity.directory_id if names_disk else ZERO_UUID
    address = Endpoint("CONTROLLER", "n8", 9093)
    to_me = {"voter_id": own_id, "voter_directory_id": disk}
    voted = solo.ask(vote(epoch=4, candidate_id=8, **to_me))
    begun = solo.ask(begin(leader_id=8, leader_epoch=4, leader_endpoints=(address,), **to_me))
    assert isinstance(voted, VoteResponse)
    assert isinstance(begun, BeginQuorumEpochResponse)
    expected = ErrorCode.NONE, ErrorCode.NONE
    if not names_disk:
        expected = ErrorCode.INCONSISTENT_VOTER_SET, ErrorCode.INVALID_REQUEST
    assert (voted.error_code, begun.error_code) == expected
    assert (voted.granted, solo.quorum.epoch) == ((True, 4) if names_disk else (False, 3))
    assert solo.core.addresses.of(8) == (address if names_disk else None)


def test_who_grants_a_pre_vote_steps_back_once() -> None:
    """The own pre-vote, due at once, waits; a second request does not push it further."""
    solo = Solo()
    solo.start()
    solo.ask(pre_vote(), now=0)
    solo.ask(pre_vote(candidate_id=3), now=60)
    deadline = solo.core.role.deadline()
    assert deadline is not None
    assert YIELD_MS <= deadline <= 150


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
    """Voter 2 says yes twice, voter 3 nothing. The candidate asks in the next epoch."""
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
    """Nobody known: unattached. A leader known: its follower again."""
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


def test_a_voter_of_another_cluster_teaches_nothing_and_is_told_to_the_operator() -> None:
    """Its epoch and leader are another cluster's; a vote refused for it is a refused vote."""
    solo = Solo()
    request = campaign(solo)[0]
    solo.trace_lines()
    answer = VoteResponse(ErrorCode.INCONSISTENT_CLUSTER_ID, 3, 8, False)
    solo.quorum.on_response(2, request, answer, Instant(201))
    assert (role(solo), solo.quorum.epoch, solo.quorum.leader_id) == (
        RoleName.PROSPECTIVE,
        0,
        -1,
    )
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


# Beginnings, ends, doubts --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_value", "error"),
    [
        (begin(cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (begin(leader_epoch=2), ErrorCode.FENCED_LEADER_EPOCH),
        (begin(leader_epoch=3, leader_id=9), ErrorCode.INVALID_REQUEST),
        (begin(leader_epoch=3, leader_id=1), ErrorCode.INVALID_REQUEST),
        (begin(leader_epoch=3, voter_id=2), ErrorCode.INVALID_VOTER_KEY),
        (begin(leader_epoch=3), ErrorCode.NONE),
        (begin(leader_epoch=5), ErrorCode.NONE),
        (end(leader_epoch=2), ErrorCode.FENCED_LEADER_EPOCH),
        (end(cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (end(leader_epoch=3, leader_id=9), ErrorCode.INVALID_REQUEST),
        (end(leader_epoch=3), ErrorCode.NONE),
    ],
)
def test_beginnings_and_ends_are_checked(
    request_value: BeginQuorumEpochRequest | EndQuorumEpochRequest, error: ErrorCode
) -> None:
    """Epoch 3, nobody leads; an accepted one makes a follower of voter 2."""
    solo = Solo(state=ElectionState(3), config=QuorumConfig(first_election_max_ms=1000))
    solo.start()
    solo.quorum.on_request(request_value, "asked", Instant(0))
    accepted = error is ErrorCode.NONE
    assert solo.core.role.leader_id == (2 if accepted else -1)
    (answer,) = [one.response for one in solo.settle(0) if isinstance(one, Reply)]
    assert isinstance(answer, BeginQuorumEpochResponse | EndQuorumEpochResponse)
    assert answer.error_code is error


@pytest.mark.parametrize("forge", [begin, end])
@pytest.mark.parametrize("has_fetched", [True, False])
def test_who_claims_an_epoch_that_another_leads_is_refused(
    forge: Callable[..., BeginQuorumEpochRequest | EndQuorumEpochRequest], has_fetched: bool
) -> None:
    """Whoever can reach the port can claim to lead: neither role nor leader nor deadline move, also
    right after a start, when the leader is known from `quorum-state` only."""
    if has_fetched:
        solo = follower()
    else:
        solo = Solo(state=ElectionState(1, 2), log_epochs=(1,))
        solo.start()
    before = (role(solo), solo.quorum.leader_id, solo.core.role.deadline())
    solo.quorum.on_request(forge(leader_id=3), "asked", Instant(1))
    (answer,) = [one.response for one in solo.settle(1) if isinstance(one, Reply)]
    assert isinstance(answer, BeginQuorumEpochResponse | EndQuorumEpochResponse)
    assert answer.error_code is ErrorCode.INVALID_REQUEST
    assert (role(solo), solo.quorum.leader_id, solo.core.role.deadline()) == before


def test_a_leader_refuses_who_claims_its_epoch() -> None:
    """It goes on to lead."""
    solo = Solo(log_epochs=(1,))
    now = 1_000
    solo.quorum.on_request(begin(leader_epoch=solo.lead()), "asked", Instant(now))
    (answer,) = [one.response for one in solo.settle(now) if isinstance(one, Reply)]
    assert isinstance(answer, BeginQuorumEpochResponse)
    assert answer.error_code is ErrorCode.INVALID_REQUEST
    assert role(solo) is RoleName.LEADER


def test_two_leaders_that_answer_in_one_epoch_stop_the_node() -> None:
    """An answer was asked for, so it is not forged: ElectionSafety is broken somewhere, and going
    on would only spread it."""
    solo = Solo(state=ElectionState(1, 2), log_epochs=(1,))
    solo.start()
    (sent,) = solo.sent(0)
    with pytest.raises(AssertionError, match="ElectionSafety: 3 and 2 lead epoch 1"):
        answer_fetch(solo, sent.request, 1, leader_id=3)


def test_a_lost_pre_vote_leads_back_to_no_leader_of_whom_only_the_disk_speaks() -> None:
    """The voters do not name it any more, so nobody knows where it is."""
    solo = Solo(state=ElectionState(1, 9), log_epochs=(1,))
    solo.start()
    for expected in (RoleName.UNATTACHED, RoleName.PROSPECTIVE, RoleName.UNATTACHED):
        assert role(solo) is expected
        solo.settle(solo.core.role.deadline() or 0)
    assert solo.core.role.leader_id == 9
    assert not [one for one in solo.sent(10_000) if one.peer_id == 9]


def test_hearing_the_leader_ends_a_pre_vote() -> None:
    """It lives: no need to replace it."""
    solo = follower()
    solo.settle(2000)
    assert role(solo) is RoleName.PROSPECTIVE
    solo.ask(begin(), now=2001)
    assert (role(solo), solo.quorum.leader_id) == (RoleName.FOLLOWER, 2)


@pytest.mark.parametrize(
    ("position", "count", "wait_ms"),
    [(0, 1, 0), (0, 4, 0), (1, 2, 500), (1, 4, 125), (2, 4, 250), (3, 4, 500), (1, 1, 1000)],
)
def test_successors_wait_by_rank(position: int, count: int, wait_ms: int) -> None:
    """Position 0 at once, the others twice as long each, at most the maximum."""
    assert end_epoch_backoff_ms(position, count, 1000) == wait_ms


@pytest.mark.parametrize(
    ("successors", "asks_at"),
    [((1, 3), 10), ((3, 1), 510), ((3,), 1010), ((), 1010)],
)
def test_a_goodbye_makes_successors_ask_in_order(successors: tuple[int, ...], asks_at: int) -> None:
    """At instant 10; who is not named waits the maximum. The leader is not asked any more."""
    solo = follower()
    candidates = tuple(ReplicaKey(voter_id) for voter_id in successors)
    solo.quorum.on_request(end(preferred_candidates=candidates), "asked", Instant(10))
    assert solo.core.role.deadline() == asks_at
    assert not [one for one in solo.sent(10) if isinstance(one.request, QuorumFetchRequest)]
    solo.settle(asks_at)
    assert role(solo) is RoleName.PROSPECTIVE


def test_a_goodbye_opens_the_door_for_others() -> None:
    """A follower that hears its leader refuses pre-votes; after the goodbye it grants."""
    solo = follower()
    candidate = pre_vote(epoch=1, last_epoch=1, last_offset=1, candidate_id=3)
    before = solo.ask(candidate, now=5)
    solo.ask(end(preferred_candidates=(ReplicaKey(3), ReplicaKey(1))), now=10)
    after = solo.ask(candidate, now=11)
    assert isinstance(before, VoteResponse)
    assert isinstance(after, VoteResponse)
    assert (before.granted, after.granted) == (False, True)


def test_a_suspected_leader_is_replaced_at_once() -> None:
    """Within 50 ms, and until then pre-votes of others are granted."""
    solo = follower()
    solo.quorum.on_peer_suspected(2, Instant(300))
    assert isinstance(solo.core.role, Follower)
    assert solo.core.role.is_in_doubt
    solo.settle(300 + SUSPICION_JITTER_MS)
    assert role(solo) is RoleName.PROSPECTIVE


def test_suspicions_of_others_and_a_detector_that_is_off_change_nothing() -> None:
    """Voter 3 is no leader; a grace of 0 is Kafka's behaviour."""
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


def test_a_leader_whom_nobody_fetches_resigns() -> None:
    """After 1.5 fetch timeouts, telling everybody; a single voter never does."""
    solo = Solo()
    solo.lead()
    deadline = solo.core.role.deadline()
    assert deadline is not None
    solo.settle(deadline - 1)
    assert role(solo) is RoleName.LEADER
    # Nobody answered the reminders, so the goodbyes wait for the end of a pause.
    said = solo.sent(deadline) + solo.sent(deadline + 400)
    assert role(solo) is RoleName.RESIGNED
    assert solo.quorum.leader_id == -1
    assert [one.peer_id for one in said if isinstance(one.request, EndQuorumEpochRequest)] == [2, 3]
    alone = Solo(voter_count=1)
    alone.lead()
    alone.settle(1_000_000)
    assert alone.quorum.is_leader


def test_who_resigned_begins_anew_in_the_next_epoch() -> None:
    """It must not become prospective in the epoch it led."""
    solo = Solo()
    epoch = solo.lead()
    solo.quorum.resign(Instant(500))
    assert role(solo) is RoleName.RESIGNED
    solo.settle(2500)
    assert solo.quorum.epoch == epoch + 1
    assert role(solo) is not RoleName.RESIGNED


def test_resigning_without_leading_changes_nothing() -> None:
    """Any node is asked to hand over before it stops."""
    solo = follower()
    solo.quorum.resign(Instant(5))
    assert role(solo) is RoleName.FOLLOWER


def test_a_voter_of_another_cluster_is_not_served() -> None:
    """Fetches, too."""
    solo = Solo()
    solo.lead()
    answer = solo.ask(fetch(cluster_id="other"))
    assert answer is not None
    assert answer.error_code is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert solo.core.identity.cluster_id == CLUSTER_ID


# A log that has lost records -----------------------------------------------------------------


def test_who_has_lost_what_it_acknowledged_neither_votes_nor_asks_for_votes() -> None:
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


def test_a_single_voter_has_nobody_who_could_give_records_back() -> None:
    """It refuses to start, with a hint."""
    solo = Solo(voter_count=1)
    solo.quorum.distrust_log()
    with pytest.raises(UsageError) as refused:
        solo.quorum.start(Instant(0))
    assert "intact copy" in refused.value.hint

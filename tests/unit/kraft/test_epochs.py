"""Beginnings and ends of epochs, as voters learn of them."""

from collections.abc import Callable

import pytest

from tests.unit.kraft.solo import (
    CLUSTER_ID,
    Solo,
    answer_fetch,
    begin,
    end,
    fetch,
    follower,
    pre_vote,
    role,
)
from tidelog.config import QuorumConfig
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.kraft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    QuorumFetchRequest,
    ReplicaKey,
    Reply,
    VoteResponse,
)
from tidelog.kraft.quorum_state import ElectionState, RoleName
from tidelog.kraft.timers import end_epoch_backoff_ms


@pytest.mark.parametrize(
    ("request_value", "error"),
    [
        (begin(cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (begin(leader_epoch=2), ErrorCode.FENCED_LEADER_EPOCH),
        (begin(leader_epoch=2, leader_id=9), ErrorCode.FENCED_LEADER_EPOCH),
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
    """Epoch 3 without a leader; an accepted one makes a follower of voter 2."""
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
def test_a_second_leader_of_an_epoch_is_refused(
    forge: Callable[..., BeginQuorumEpochRequest | EndQuorumEpochRequest], has_fetched: bool
) -> None:
    """Any node that reaches the port can claim to lead: role, leader and deadline stay, also
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


def test_a_leader_refuses_a_second_leader_of_its_epoch() -> None:
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


@pytest.mark.parametrize(
    ("position", "count", "wait_ms"),
    [(0, 1, 0), (0, 4, 0), (1, 2, 500), (1, 4, 125), (2, 4, 250), (3, 4, 500), (1, 1, 1000)],
)
def test_successors_wait_by_rank(position: int, count: int, wait_ms: int) -> None:
    """Position 0 at once, the others twice as long each, at most the maximum."""
    assert end_epoch_backoff_ms(position, count, 1000) == wait_ms


@pytest.mark.parametrize(
    ("successors", "asks_at"), [((1, 3), 10), ((3, 1), 510), ((3,), 1010), ((), 1010)]
)
def test_a_resignation_makes_successors_ask_in_order(
    successors: tuple[int, ...], asks_at: int
) -> None:
    """At instant 10; a voter that is not named waits the maximum. The leader is asked no more."""
    solo = follower()
    candidates = tuple(ReplicaKey(voter_id) for voter_id in successors)
    solo.quorum.on_request(end(preferred_candidates=candidates), "asked", Instant(10))
    assert solo.core.role.deadline() == asks_at
    assert not [one for one in solo.sent(10) if isinstance(one.request, QuorumFetchRequest)]
    solo.settle(asks_at)
    assert role(solo) is RoleName.PROSPECTIVE


def test_a_resignation_lets_others_be_elected() -> None:
    """A follower in contact with its leader refuses pre-votes; after the resignation it grants."""
    solo = follower()
    candidate = pre_vote(epoch=1, last_epoch=1, last_offset=1, candidate_id=3)
    before = solo.ask(candidate, now=5)
    solo.ask(end(preferred_candidates=(ReplicaKey(3), ReplicaKey(1))), now=10)
    after = solo.ask(candidate, now=11)
    assert isinstance(before, VoteResponse)
    assert isinstance(after, VoteResponse)
    assert (before.granted, after.granted) == (False, True)


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

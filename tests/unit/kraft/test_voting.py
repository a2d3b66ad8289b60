"""The voter's side: who is granted a vote, and who steps back."""

import pytest

from tests.unit.kraft.solo import Solo, begin, pre_vote, vote
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.kraft.messages import BeginQuorumEpochResponse, Reply, VoteRequest, VoteResponse
from tidelog.kraft.quorum_state import ElectionState
from tidelog.kraft.timers import YIELD_MS
from tidelog.model import ZERO_UUID, Endpoint, Uuid

WRONG_DIRECTORY = Uuid(b"\x77" * 16)


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
    """Epoch 3 without a leader. Refused or not, the answer has what this voter knows."""
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
    """By its own log the voters are configured, and neither replica 8 nor an observer is one. A
    sender can know this disk only from a voter set in a log. Requests of all others are refused,
    and the addresses in them are not learned."""
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


def test_a_voter_that_grants_a_pre_vote_steps_back_once() -> None:
    """The own pre-vote, due at once, waits; a second request does not push it further."""
    solo = Solo()
    solo.start()
    solo.ask(pre_vote(), now=0)
    solo.ask(pre_vote(candidate_id=3), now=60)
    deadline = solo.core.role.deadline()
    assert deadline is not None
    assert YIELD_MS <= deadline <= 150

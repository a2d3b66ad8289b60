"""One request of a kind per peer, timeouts, pauses."""

import pytest

from tests.unit.kraft.solo import fetch, vote
from tidelog.env.instant import NEVER, Instant
from tidelog.kraft.messages import QuorumFetchRequest, VoteRequest
from tidelog.kraft.requests import PeerRequests


def make_requests() -> PeerRequests:
    """Two seconds to answer, pauses from 20 ms on."""
    return PeerRequests(timeout_ms=2000, backoff_ms=20)


def test_one_of_a_kind_at_a_time() -> None:
    """A fetch does not hold up a vote; a second fetch waits for the first."""
    requests = make_requests()
    requests.on_sent(2, fetch(), Instant(0))
    assert requests.ready_at(2, QuorumFetchRequest) == NEVER
    assert requests.ready_at(2, VoteRequest) == 0
    assert requests.ready_at(3, QuorumFetchRequest) == 0
    with pytest.raises(AssertionError, match="two requests to 2"):
        requests.on_sent(2, fetch(), Instant(1))


def test_only_the_answer_to_the_very_request_counts() -> None:
    """An equal request of an earlier role is another one."""
    requests = make_requests()
    old, new = fetch(), fetch()
    requests.on_sent(2, old, Instant(0))
    requests.forget_outstanding()
    requests.on_sent(2, new, Instant(0))
    assert not requests.on_answered(2, old)
    assert not requests.on_answered(3, new)
    assert requests.on_answered(2, new)
    assert not requests.on_answered(2, new)


def test_pauses_double_up_to_a_bound_and_end_with_a_sign_of_life() -> None:
    """20, 40, ... 320 ms, then 320 again; a forgotten role keeps them."""
    requests = make_requests()
    pauses = []
    for _ in range(7):
        requests.on_failed(2, Instant(0))
        requests.forget_outstanding()
        pauses.append(requests.ready_at(2, VoteRequest))
    assert pauses == [20, 40, 80, 160, 320, 320, 320]
    assert requests.is_failing(2)
    assert requests.ready_at(3, VoteRequest) == 0
    requests.on_alive(2)
    assert not requests.is_failing(2)
    assert requests.ready_at(2, VoteRequest) == 0


def test_an_unanswered_request_is_given_up() -> None:
    """At its own time, and only once."""
    requests = make_requests()
    first, second = vote(), fetch()
    requests.on_sent(2, first, Instant(0))
    requests.on_sent(3, second, Instant(5))
    assert requests.deadline() == 2000
    assert requests.take_overdue(Instant(1999)) == []
    assert requests.take_overdue(Instant(2000)) == [(2, first)]
    assert requests.deadline() == 2005
    assert requests.outstanding(QuorumFetchRequest) == [second]
    assert requests.outstanding(VoteRequest) == []

"""Blocks of producer ids: each id is given out once, and no request waits for ever."""

import pytest

from tidelog.broker.producer_ids import RETRY_INTERVAL_MS, ProducerIds
from tidelog.controller.messages import AllocateProducerIdsResult, Refused
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode

NOW = Instant(100)


@pytest.fixture
def ids() -> ProducerIds:
    return ProducerIds()


def block(ids: ProducerIds, first: int, count: int) -> list[tuple[object, int]]:
    """The controller's answer to a wish that was due."""
    assert ids.wants_block(NOW)
    ids.on_response(AllocateProducerIdsResult(first, count), NOW)
    return ids.take_granted()


def test_no_block_is_asked_for_before_a_client_needs_one(ids):
    assert not ids.wants_block(NOW)
    assert ids.deadline() is None


def test_the_first_request_waits_for_a_block_and_the_next_ones_do_not(ids):
    assert ids.request("a") is None
    assert block(ids, 5000, 3) == [("a", 5000)]
    assert ids.request("b") == 5001
    assert ids.request("c") == 5002
    assert ids.request("d") is None
    assert block(ids, 9000, 10) == [("d", 9000)]


def test_requests_are_served_in_order_across_blocks(ids):
    for name in "abcde":
        assert ids.request(name) is None
    assert block(ids, 0, 2) == [("a", 0), ("b", 1)]
    assert block(ids, 10, 2) == [("c", 10), ("d", 11)]
    assert block(ids, 20, 2) == [("e", 20)]
    assert ids.request("f") == 21


def test_no_client_overtakes_those_that_wait(ids):
    for name in "abc":
        ids.request(name)
    assert ids.wants_block(NOW)
    ids.on_response(AllocateProducerIdsResult(0, 2), NOW)
    assert ids.request("late") is None
    assert [name for name, _ in ids.take_granted()] == ["a", "b"]


def test_one_wish_at_a_time(ids):
    ids.request("a")
    assert ids.wants_block(NOW)
    assert not ids.wants_block(NOW)
    assert ids.deadline() is None


@pytest.mark.parametrize("response", [None, Refused(ErrorCode.NOT_CONTROLLER, "not me")])
def test_a_failed_wish_is_repeated_after_a_pause(ids, response):
    ids.request("a")
    assert ids.wants_block(NOW)
    ids.on_response(response, NOW)
    assert ids.take_granted() == []
    assert ids.deadline() == NOW + RETRY_INTERVAL_MS
    assert not ids.wants_block(Instant(NOW + RETRY_INTERVAL_MS - 1))
    assert ids.wants_block(Instant(NOW + RETRY_INTERVAL_MS))


@pytest.mark.parametrize("seed", range(10))
def test_no_id_is_given_out_twice(seed):
    prng, ids = Prng(seed), ProducerIds()
    given: list[int] = []
    served: list[object] = []
    asked, next_block, now = 0, 0, 0
    for _ in range(500):
        now += prng.below(40)
        if prng.chance(1, 2):
            granted = ids.request(asked)
            if granted is not None:
                given.append(granted)
                served.append(asked)
            asked += 1
        if ids.wants_block(Instant(now)):
            response = None
            if prng.chance(2, 3):
                count = prng.between(1, 5)
                response = AllocateProducerIdsResult(next_block, count)
                next_block += count
            ids.on_response(response, Instant(now))
        for reply_to, producer_id in ids.take_granted():
            given.append(producer_id)
            served.append(reply_to)
    assert given == sorted(set(given))
    assert served == list(range(len(served)))
    assert len(served) > 100

"""Blocks of producer ids: each id is given out once, and no request waits for ever."""

import pytest

from tidelog.broker.producer_ids import RETRY_INTERVAL_MS, ProducerIds
from tidelog.controller.messages import AllocateProducerIdsResult, Refused, Response
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode

NOW = Instant(100)


class Asked:
    """Requests by name, and the ids that they got."""

    def __init__(self) -> None:
        self.ids = ProducerIds()
        self.given: list[tuple[object, int]] = []

    def request(self, name: object, now: Instant = NOW) -> int | None:
        """The id that it got at once."""
        before = len(self.given)
        self.ids.request(lambda given, _: self.given.append((name, given)), now)
        return self.given.pop()[1] if len(self.given) > before else None

    def on_response(self, response: Response | None) -> None:
        """The answer to a wish that was due."""
        assert self.ids.wants_block(NOW)
        self.ids.on_response(response, NOW)

    def block(self, first: int, count: int) -> list[tuple[object, int]]:
        """The controller gives a block; who gets ids of it."""
        self.given.clear()
        self.on_response(AllocateProducerIdsResult(first, count))
        return list(self.given)


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_no_block_is_asked_for_before_a_client_needs_one(asked):
    assert not asked.ids.wants_block(NOW)
    assert asked.ids.deadline() is None


def test_the_first_request_waits_for_a_block_and_the_next_ones_do_not(asked):
    assert asked.request("a") is None
    assert asked.block(5000, 3) == [("a", 5000)]
    assert asked.request("b") == 5001
    assert asked.request("c") == 5002
    assert asked.request("d") is None
    assert asked.block(9000, 10) == [("d", 9000)]


def test_requests_are_served_in_order_across_blocks(asked):
    for name in "abcde":
        assert asked.request(name) is None
    assert asked.block(0, 2) == [("a", 0), ("b", 1)]
    assert asked.block(10, 2) == [("c", 10), ("d", 11)]
    assert asked.block(20, 2) == [("e", 20)]
    assert asked.request("f") == 21


def test_no_client_overtakes_those_that_wait(asked):
    for name in "abc":
        asked.request(name)
    assert asked.block(0, 2) == [("a", 0), ("b", 1)]
    assert asked.request("late") is None
    assert asked.block(2, 2) == [("c", 2), ("late", 3)]


def test_one_wish_at_a_time(asked):
    asked.request("a")
    assert asked.ids.wants_block(NOW)
    assert not asked.ids.wants_block(NOW)
    assert asked.ids.deadline() is None


@pytest.mark.parametrize("response", [None, Refused(ErrorCode.NOT_CONTROLLER, "not me")])
def test_a_failed_wish_is_repeated_after_a_pause(asked, response):
    asked.request("a")
    asked.on_response(response)
    assert asked.given == []
    assert asked.ids.deadline() == NOW + RETRY_INTERVAL_MS
    assert not asked.ids.wants_block(Instant(NOW + RETRY_INTERVAL_MS - 1))
    assert asked.ids.wants_block(Instant(NOW + RETRY_INTERVAL_MS))


@pytest.mark.parametrize("seed", range(10))
def test_no_id_is_given_out_twice(seed):
    prng, ids = Prng(seed), ProducerIds()
    given: list[int] = []
    served: list[int] = []
    asked, next_block, now = 0, 0, 0

    def take(name: int, producer_id: int) -> None:
        served.append(name)
        given.append(producer_id)

    for _ in range(500):
        now += prng.below(40)
        if prng.chance(1, 2):
            ids.request(lambda producer_id, _, name=asked: take(name, producer_id), Instant(now))
            asked += 1
        if ids.wants_block(Instant(now)):
            response = None
            if prng.chance(2, 3):
                count = prng.between(1, 5)
                response = AllocateProducerIdsResult(next_block, count)
                next_block += count
            ids.on_response(response, Instant(now))
    assert given == sorted(set(given))
    assert served == list(range(len(served)))
    assert len(served) > 100

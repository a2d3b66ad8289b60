"""Suspicions: only refused connects make them, only for long enough, and one success ends them."""

import pytest

from tidelog.broker.failure_detector import (
    PROBE_INTERVAL_MS,
    SLOW_PROBE_INTERVAL_MS,
    FailureDetector,
)
from tidelog.env.effects import CloseReason
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng

GRACE_MS = 500


@pytest.fixture
def detector() -> FailureDetector:
    return FailureDetector(GRACE_MS)


def lose(detector: FailureDetector, now: int, reason: CloseReason = CloseReason.REFUSED) -> None:
    detector.on_connection_lost(2, reason, Instant(now))
    detector.check()


def probed(detector: FailureDetector, now: int) -> list[int]:
    detector.wake(Instant(now))
    return detector.take_probes()


def test_a_lost_connection_is_probed_at_once_and_makes_no_suspicion(detector):
    lose(detector, 0, CloseReason.PEER)
    assert detector.deadline() == 0
    assert probed(detector, 0) == [2]
    assert detector.take_changes() == []
    assert detector.in_doubt == {2}
    assert detector.suspected == []


def test_refusals_for_the_whole_grace_period_make_a_suspect(detector):
    lose(detector, 0, CloseReason.PEER)
    for now in range(0, GRACE_MS, PROBE_INTERVAL_MS):
        assert probed(detector, now) == [2]
        lose(detector, now)
        assert detector.take_changes() == []
        assert detector.deadline() == now + PROBE_INTERVAL_MS
    lose(detector, GRACE_MS)
    assert detector.take_changes() == [(2, True)]
    assert detector.suspected == [2]


def test_the_last_probe_comes_when_the_grace_period_ends(detector):
    """Not an interval later, when the first refusal took longer than the last."""
    lose(detector, 0, CloseReason.PEER)
    assert probed(detector, 0) == [2]
    now = 3
    lose(detector, now)
    while not detector.suspected:
        due_at = detector.deadline()
        assert due_at is not None and probed(detector, due_at) == [2]
        now = due_at
        lose(detector, now)
    assert now == 3 + GRACE_MS


def test_it_is_calm_when_there_is_nothing_to_ask_or_to_take(detector):
    assert detector.is_calm
    lose(detector, 0)
    assert not detector.is_calm
    lose(detector, GRACE_MS)
    detector.on_reached(2)
    assert not detector.is_calm
    assert detector.take_changes() == [(2, True), (2, False)]
    assert detector.is_calm


def test_the_grace_period_begins_with_the_first_refusal_not_with_the_loss(detector):
    lose(detector, 0, CloseReason.PEER)
    lose(detector, 300)
    lose(detector, 300 + GRACE_MS - 1)
    assert detector.take_changes() == []
    lose(detector, 300 + GRACE_MS)
    assert detector.take_changes() == [(2, True)]


@pytest.mark.parametrize("reason", [CloseReason.TIMEOUT, CloseReason.PEER, CloseReason.ERROR])
def test_a_silent_network_makes_no_suspicion(detector, reason):
    """Packets that vanish refuse nothing: time-outs and cuts alone never make a suspect."""
    for now in range(0, 20 * GRACE_MS, 100):
        lose(detector, now, reason)
    assert detector.take_changes() == []
    assert detector.in_doubt == {2}


def test_one_success_clears_everything(detector):
    lose(detector, 0)
    lose(detector, GRACE_MS - 1)
    detector.on_reached(2)
    assert detector.in_doubt == frozenset()
    assert detector.deadline() is None
    lose(detector, GRACE_MS)
    lose(detector, 2 * GRACE_MS - 1)
    assert detector.take_changes() == []


def test_the_end_of_a_suspicion_is_reported_once(detector):
    lose(detector, 0)
    lose(detector, GRACE_MS)
    detector.on_reached(2)
    detector.on_reached(2)
    assert detector.take_changes() == [(2, True), (2, False)]
    assert detector.take_changes() == []
    assert detector.suspected == []


def test_a_suspicion_is_reported_once_while_refusals_go_on(detector):
    for now in range(0, 10 * GRACE_MS, 100):
        lose(detector, now)
    assert detector.take_changes() == [(2, True)]


def test_a_suspect_is_probed_slowly(detector):
    lose(detector, 0)
    lose(detector, GRACE_MS)
    at = GRACE_MS + PROBE_INTERVAL_MS
    assert probed(detector, at - 1) == []
    assert probed(detector, at) == [2]
    assert detector.deadline() == at + SLOW_PROBE_INTERVAL_MS
    lose(detector, at + 1)
    assert detector.deadline() == at + SLOW_PROBE_INTERVAL_MS


def test_reaching_a_peer_that_is_fine_changes_nothing(detector):
    detector.on_reached(2)
    assert detector.take_changes() == []
    assert probed(detector, 1000) == []


def test_doubt_asks_for_a_probe_and_reports_nothing(detector):
    detector.doubt(2, Instant(7))
    assert detector.in_doubt == frozenset()
    assert probed(detector, 7) == [2]
    lose(detector, 8)
    assert detector.in_doubt == {2}
    lose(detector, 8 + GRACE_MS)
    assert detector.take_changes() == [(2, True)]


def test_doubt_does_not_restart_what_is_known(detector):
    lose(detector, 0)
    detector.doubt(2, Instant(GRACE_MS - 10))
    lose(detector, GRACE_MS)
    assert detector.take_changes() == [(2, True)]


def test_grace_zero_is_kafkas_behaviour():
    detector = FailureDetector(0)
    for now in range(0, 60_000, 100):
        lose(detector, now)
    detector.doubt(3, Instant(0))
    assert detector.take_changes() == []
    assert detector.deadline() is None
    assert probed(detector, 60_000) == []


def test_peers_are_independent(detector):
    detector.on_connection_lost(3, CloseReason.REFUSED, Instant(0))
    lose(detector, 100)
    detector.on_connection_lost(3, CloseReason.REFUSED, Instant(GRACE_MS))
    lose(detector, GRACE_MS)
    assert detector.take_changes() == [(3, True)]
    assert detector.in_doubt == {2, 3}
    detector.on_reached(3)
    assert detector.in_doubt == {2}


@pytest.mark.parametrize("seed", range(20))
def test_suspected_only_while_refused(seed):
    """SuspectedOnlyWhileRefused, against a model: random losses, successes and time."""
    prng, now, detector = Prng(seed), 0, FailureDetector(GRACE_MS)
    refused_since: dict[int, int] = {}
    suspected: set[int] = set()
    for _ in range(2000):
        now += prng.below(120)
        peer_id = prng.between(1, 3)
        if prng.chance(1, 12):
            detector.on_reached(peer_id)
            refused_since.pop(peer_id, None)
        else:
            reason = prng.choice(list(CloseReason))
            detector.on_connection_lost(peer_id, reason, Instant(now))
            if reason is CloseReason.REFUSED:
                refused_since.setdefault(peer_id, now)
        detector.wake(Instant(now))
        detector.check()
        for changed, is_suspected in detector.take_changes():
            assert (changed in suspected) != is_suspected
            (suspected.add if is_suspected else suspected.discard)(changed)
        for each in suspected:
            assert now - refused_since[each] >= GRACE_MS
        assert detector.suspected == sorted(suspected)

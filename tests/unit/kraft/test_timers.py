"""The random waits before elections."""

from tidelog.config import QuorumConfig
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.kraft.timers import ElectionTimers


def test_election_timeouts_are_spread_over_one_to_two_timeouts() -> None:
    """All of [t, 2t), nothing outside."""
    timers = ElectionTimers(QuorumConfig(), Prng(1))
    drawn = [timers.draw_election_timeout(Instant(10_000)) - 10_000 for _ in range(500)]
    assert 1000 <= min(drawn) < 1050
    assert 1950 < max(drawn) < 2000

"""How long a replica waits before it acts: every random wait of the quorum's elections.

The configured election timeout is drawn anew from [t, 2t) each time. A replica that has known no
leader since its process started waits only up to `first_election_max_ms`: a cluster that starts has
no leader to disturb, and a pre-vote never disturbs one.
"""

from typing import Final

from tidelog.config import QuorumConfig
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng

SUSPICION_JITTER_MS: Final = 50
"""Followers that lost their leader together do not all ask for votes at the same moment."""

YIELD_MS: Final = 100
"""How long a replica steps back for another one that asks for votes first: a few round trips and
two disk writes, so that one of them is elected instead of both splitting the vote."""

LOST_WAIT_MS: Final = (YIELD_MS, 3 * YIELD_MS)
"""A candidate that cannot win any more waits this long for the winner before it asks again."""


def end_epoch_backoff_ms(position: int, successor_count: int, max_ms: int) -> int:
    """How long the successor at `position` (0 is the best) waits before it asks for votes."""
    if position == 0:
        return 0
    return min(max_ms, (max_ms >> (successor_count - 1)) << (position - 1))


class ElectionTimers:
    """Draws the waits of one replica."""

    def __init__(self, config: QuorumConfig, prng: Prng) -> None:
        self._config = config
        self._prng = prng
        # Whether a leader was in contact since the process started, or this replica led.
        self.has_known_leader: bool = False

    def draw_election_timeout(self, now: Instant) -> Instant:
        """Uniform in [t, 2t)."""
        timeout_ms = self._config.election_timeout_ms
        return Instant(now + self._prng.between(timeout_ms, 2 * timeout_ms - 1))

    def draw_first_wait(self, now: Instant, *, has_no_peer: bool) -> Instant:
        """The wait of a replica for its turn to ask for votes; the only voter does not wait."""
        if has_no_peer:
            return now
        if self.has_known_leader:
            return self.draw_election_timeout(now)
        return Instant(now + self._prng.between(0, self._config.first_election_max_ms))

    def fetch_deadline_from(self, now: Instant) -> Instant:
        """How long to try a leader that has not answered yet. A leader that only the own disk or
        another voter has named is not tried for long."""
        if self.has_known_leader:
            return Instant(now + self._config.fetch_timeout_ms)
        return Instant(now + self._config.first_election_max_ms)

    def draw_suspicion_jitter(self, now: Instant) -> Instant:
        """The wait of a follower whose leader is gone."""
        return Instant(now + self._prng.between(0, SUSPICION_JITTER_MS))

    def draw_lost_wait(self, now: Instant) -> Instant:
        """The wait of a candidate that cannot win any more."""
        return Instant(now + self._prng.between(*LOST_WAIT_MS))

"""What quotas of clients are measured by: sampled rates, and buckets of tokens.

A *rate* is what was recorded in the last samples over the time that they cover, which is counted as
all samples but one: ten seconds, unless `quota.window.num` or `quota.window.size.seconds` say
otherwise. So a client that was silent may use ten seconds of its quota at once. It is recorded
first and compared then: the request that goes beyond the quota is carried out, and its client waits
for as long as the excess takes at the quota's rate. Over ten seconds a client with one
connection, whose requests are at most a twentieth of what the quota allows in a second, gets at
most a tenth more than its quota; in the long run so do all who wait (*QuotaInTheLongRun*). Fetches
are refused beyond the quota, so their size does not matter.

Kafka counts whole samples that have not begun yet, so its rate falls by up to a tenth within each
second and jumps back; here it does not, which makes the first pauses a little longer.

A *bucket* fills with tokens at the quota's rate, up to a window's worth. A request may take more
than there are, and then none is left for others until the debt is paid.

Both get the bound with each question, because quotas change, and what was used stays.

Source: Kafka's `Rate`, `SampledStat` and `TokenBucket`; KIP-124, KIP-599.
"""

from typing import Final, NamedTuple

from tidelog.env.instant import Instant
from tidelog.env.sample_window import SampleWindow


class QuotaWindow(NamedTuple):
    """The samples of a rate. A bucket holds as many tokens as they let through."""

    samples: int = 11
    sample_ms: int = 1000
    """Also the longest pause of a client that goes beyond its share of the node's time, or opens
    connections too fast."""

    @property
    def least_ms(self) -> int:
        """The shortest time that a rate is reckoned over."""
        return (self.samples - 1) * self.sample_ms

    @property
    def whole_ms(self) -> int:
        """How long an amount counts."""
        return self.samples * self.sample_ms


USUAL: Final = QuotaWindow()


class RateMeter:
    """Amounts over time."""

    __slots__ = ("_least_ms", "_window")

    def __init__(self, window: QuotaWindow = USUAL) -> None:
        self._window = SampleWindow(*window)
        self._least_ms = window.least_ms

    def record(self, amount: int, now: Instant) -> None:
        """Counts an amount; a negative one takes back what was recorded."""
        self._window.record(amount, now)

    def pause_ms(self, bound: float, now: Instant) -> int:
        """How long nothing more may come; 0 within the bound, which is an amount per second."""
        return max(0, round(self._excess_ms(bound, now)))

    def refusal_ms(self, bound: float, now: Instant) -> int:
        """How long until the rate is within the bound, or a sample goes, if nothing more comes; 0
        within the bound. It is longer than `pause_ms` while less than a whole window is covered."""
        window = self._window
        if self._excess_ms(bound, now) <= 0:
            return 0
        paid_ms = min(window.total * 1000 / bound, window.window_ms)
        return max(1, round(window.samples[0][0] + paid_ms - now))

    def _excess_ms(self, bound: float, now: Instant) -> float:
        """For how much longer than is covered the amounts would be within the bound."""
        window = self._window
        window.forget(now)
        if not window.samples:
            return 0
        covered_ms = max(now - window.samples[0][0], self._least_ms)
        return window.total * 1000 / bound - covered_ms

    def is_idle(self, now: Instant) -> bool:
        """Whether it is like a new one."""
        self._window.forget(now)
        return not self._window.samples


class TokenBucket:
    """Tokens that are filled up over time."""

    __slots__ = ("_filled_at", "_tokens", "_window_ms")

    def __init__(self, window: QuotaWindow = USUAL) -> None:
        self._window_ms = window.whole_ms
        # What there is; below zero it is a debt. A new bucket is full.
        self._tokens = float("inf")
        # Until when it has been filled.
        self._filled_at = Instant(0)

    def take(self, amount: int, bound: float, now: Instant, *, strict: bool) -> int:
        """Takes tokens, also more than there are; the pause in ms until there is no debt. With
        `strict` a debt of before means that none are taken, and a debt that is made now waits for
        the next one who takes."""
        self._fill(bound, now)
        if strict and self._tokens < 0:
            return self._pause_ms(bound)
        self._tokens -= amount
        return 0 if strict else self._pause_ms(bound)

    def is_idle(self, now: Instant) -> bool:
        """Whether it is like a new one, at the rate it was last asked with or a higher one."""
        return now - self._filled_at >= self._window_ms and self._tokens >= 0

    def _fill(self, bound: float, now: Instant) -> None:
        most = bound * self._window_ms / 1000
        filled = self._tokens + bound * (now - self._filled_at) / 1000
        self._tokens = min(most, filled)
        self._filled_at = now

    def _pause_ms(self, bound: float) -> int:
        return max(0, round(-self._tokens / bound * 1000))

"""How much of something there was lately: a sum over a sliding window, kept in samples.

What is recorded within one sample's time is one number, so a window costs the same whatever its
rate is. A sample goes as a whole, a window's length after it began.

Source: the sampled rates of Kafka's quotas.
"""

from collections import deque

from tidelog.env.instant import Instant


class SampleWindow:
    """The amounts of the last `samples` of `sample_ms` each."""

    __slots__ = ("sample_ms", "samples", "total", "window_ms")

    def __init__(self, count: int, sample_ms: int) -> None:
        self.sample_ms = sample_ms
        # How long a sample is kept.
        self.window_ms = count * sample_ms
        # (when it began, amount), oldest first. What is too old goes when `forget` is called.
        self.samples: deque[tuple[Instant, int]] = deque()
        # The sum of all samples.
        self.total = 0

    def record(self, amount: int, now: Instant) -> None:
        """Adds an amount; a negative one takes back what was recorded."""
        self.forget(now)
        if not self.samples or now - self.samples[-1][0] >= self.sample_ms:
            self.samples.append((now, 0))
        began, counted = self.samples[-1]
        self.samples[-1] = (began, counted + amount)
        self.total += amount

    def forget(self, now: Instant) -> None:
        """Drops the samples that are too old."""
        oldest = now - self.window_ms
        while self.samples and self.samples[0][0] <= oldest:
            self.total -= self.samples.popleft()[1]

"""Rates over samples, and buckets of tokens."""

import pytest

from tidelog.env.instant import Instant
from tidelog.security.quota_meters import QuotaWindow, RateMeter, TokenBucket


def at(ms: int) -> Instant:
    return Instant(5_000_000 + ms)


def test_the_excess_is_waited_for() -> None:
    """As measured on Apache Kafka 4.3.1 at 1,000 bytes a second, but for 18 ms."""
    meter, pauses = RateMeter(), []
    for ms, amount in ((0, 5109), (9, 4109), (18, 3109)):
        meter.record(amount, at(ms))
        pauses.append(meter.pause_ms(1000, at(ms)))
    assert pauses == [0, 0, 2327]


def test_what_a_window_ago_was_used_does_not_count() -> None:
    meter = RateMeter()
    meter.record(50_000, at(0))
    assert meter.pause_ms(1000, at(10_999)) == 50_000 - 10_999
    assert meter.pause_ms(1000, at(11_000)) == 0
    assert meter.is_idle(at(11_000))


@pytest.mark.parametrize("amount", [1, 16, 50])
def test_over_ten_seconds_a_quota_is_kept_within_a_tenth(amount: int) -> None:
    """QuotaInTheLongRun: of a client that is never done, from its first request on."""
    meter, now, used = RateMeter(), 0, []
    while now < 60_000:
        meter.record(amount, at(now))
        used.append(now)
        now += max(1, meter.pause_ms(1000, at(now)))
    for begin in range(0, 50_000, 500):
        assert amount * sum(begin <= ms < begin + 10_000 for ms in used) <= 11_000
    assert amount * sum(ms < 10_000 for ms in used) == pytest.approx(10_000, rel=0.1)
    assert amount * len(used) == pytest.approx(60_000, rel=0.1)


@pytest.mark.parametrize("amount", [16, 250, 1000])
def test_refusals_keep_a_quota_however_much_comes_at_once(amount: int) -> None:
    """QuotaInTheLongRun: of a client that asks again as soon as it may, and gets nothing while it
    is beyond the quota."""
    meter, now, used = RateMeter(), 0, []
    while now < 60_000:
        refusal_ms = meter.refusal_ms(1000, at(now))
        if not refusal_ms:
            meter.record(amount, at(now))
            used.append(now)
        now += max(1, min(1000, refusal_ms), meter.pause_ms(1000, at(now)))
    for begin in range(0, 50_000, 500):
        assert amount * sum(begin <= ms < begin + 10_000 for ms in used) <= 11_000
    assert amount * len(used) == pytest.approx(60_000, rel=0.1)


def test_a_shorter_window_lets_less_through_at_once() -> None:
    """Method: twice what a window allows at once, at 1,000 a second."""
    for window in (QuotaWindow(2), QuotaWindow(3, 5000), QuotaWindow()):
        meter, bucket = RateMeter(window), TokenBucket(window)
        meter.record(2 * window.least_ms, at(0))
        assert meter.pause_ms(1000, at(0)) == window.least_ms
        assert meter.is_idle(at(window.whole_ms))
        assert bucket.take(2 * window.whole_ms, 1000, at(0), strict=False) == window.whole_ms


def test_a_bucket_is_as_kafkas() -> None:
    """Measured on Apache Kafka 4.3.1: one a second, topics of five partitions."""
    bucket = TokenBucket()
    strict = [bucket.take(5, 1, at(ms), strict=True) for ms in (0, 30, 60, 103)]
    assert strict == [0, 0, 0, 3897]
    assert bucket.take(5, 1, at(103), strict=False) == 8897


def test_a_debt_is_paid_over_time() -> None:
    bucket = TokenBucket()
    bucket.take(30, 2, at(0), strict=True)
    assert not bucket.is_idle(at(0))
    assert bucket.take(1, 2, at(0), strict=True) == 4000
    assert bucket.take(1, 2, at(4000), strict=True) == 0
    assert bucket.take(1, 2, at(4000), strict=True) == 500

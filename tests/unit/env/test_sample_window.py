"""Samples are summed up, and go as a whole."""

from tidelog.env.instant import Instant
from tidelog.env.sample_window import SampleWindow


def test_a_sample_takes_what_comes_in_its_time() -> None:
    window = SampleWindow(2, 1000)
    for ms, amount in ((0, 1), (999, 2), (1000, 4), (1500, -1)):
        window.record(amount, Instant(ms))
    assert list(window.samples) == [(0, 3), (1000, 3)]
    window.forget(Instant(1999))
    assert window.total == 6
    window.forget(Instant(2000))
    assert window.total == 3
    window.record(7, Instant(9000))
    assert list(window.samples) == [(9000, 7)] and window.total == 7

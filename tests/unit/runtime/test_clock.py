"""Goal: the core learns wall time once, and again only when it has moved."""

import time

import pytest

from tidelog.env.effects import WallClock
from tidelog.runtime import clock


def test_now_is_whole_monotonic_milliseconds() -> None:
    before = time.monotonic_ns() // 1_000_000
    assert before <= clock.now() <= time.monotonic_ns() // 1_000_000


def test_the_offset_is_given_once_and_again_after_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Method: the operating system's clocks are replaced by numbers."""
    wall_ms = [1_000_000]
    monkeypatch.setattr(time, "monotonic_ns", lambda: 400_000 * 1_000_000)
    monkeypatch.setattr(time, "time_ns", lambda: wall_ms[0] * 1_000_000)
    offset = clock.WallOffset()
    assert offset.observe() == WallClock(600_000)
    wall_ms[0] += clock.WALL_DRIFT_MS
    assert offset.observe() is None
    wall_ms[0] += 1
    assert offset.observe() == WallClock(600_006)
    wall_ms[0] -= 3_600_000
    assert offset.observe() == WallClock(600_006 - 3_600_000)

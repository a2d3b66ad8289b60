"""Waiting for a condition with a deadline: the one place above the runtime that sleeps."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

POLL_S: Final = 0.01


class Deadline:
    """A point in time, given as seconds from now."""

    __slots__ = ("_at", "timeout_s")

    def __init__(self, timeout_s: float) -> None:
        # As asked for, for messages.
        self.timeout_s = timeout_s
        self._at = time.monotonic() + timeout_s

    def left_s(self) -> float:
        """Seconds that are left, never below zero."""
        return max(0.0, self._at - time.monotonic())

    def passed(self) -> bool:
        """Whether it is over."""
        return time.monotonic() >= self._at


def wait_until(
    condition: Callable[[], T | None],
    timeout_s: float,
    what: str,
    *,
    last_seen: Callable[[], object] | None = None,
) -> T:
    """Polls until the condition gives something other than `None` or `False`, and returns it.

    Raises `TimeoutError` that says what was waited for and, with `last_seen`, what was there
    instead.
    """
    deadline = Deadline(timeout_s)
    while True:
        result = condition()
        if result is not None and result is not False:
            return result
        if deadline.passed():
            seen = f"; last seen: {last_seen()}" if last_seen is not None else ""
            raise TimeoutError(f"no {what} within {timeout_s:g} s{seen}")
        time.sleep(POLL_S)

"""Waiting for a condition with a deadline: the one place above the runtime that sleeps."""

import time
from collections.abc import Callable
from typing import TypeVar

from tidelog.client.blocking import now_ms
from tidelog.client.core.errors import Retry

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T | None],
    timeout_s: float,
    what: str,
    *,
    last_seen: Callable[[], object] | None = None,
) -> T:
    """Polls until the condition gives something other than `None` or `False`, and returns it.

    Raises `TimeoutError` with what was waited for and, with `last_seen`, what was there
    instead.
    """
    retry = Retry(now_ms(), timeout_s)
    while True:
        result = condition()
        if result is not None and result is not False:
            return result
        if retry.is_over(now_ms()):
            seen = f"; last seen: {last_seen()}" if last_seen is not None else ""
            raise TimeoutError(f"no {what} within {timeout_s:g} s{seen}")
        time.sleep(retry.pause_s)

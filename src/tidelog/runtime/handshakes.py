"""TLS handshakes under way: how many, how long, and how much of them in one turn.

Before its handshake has ended a peer is a stranger, and costs what it wants: a descriptor for as
long as it is silent, and a quarter of a millisecond of arithmetic or more for each step. So

- a handshake that has not ended after `HANDSHAKE_TIMEOUT_MS` is cut;
- of accepted connections at most `MAX_HANDSHAKES` are in their handshake, and at most
  `MAX_HANDSHAKES_PER_HOST` of one address. For one more the oldest is cut: honest peers are done in
  milliseconds, so the oldest are not theirs;
- at most `HANDSHAKE_STEPS_PER_TURN` steps run in one turn of the loop. The others wait in line, and
  their peers are not read meanwhile.

Those that this node dials are not counted against the bounds, which are for strangers.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Protocol

from tidelog.limits import (
    HANDSHAKE_STEPS_PER_TURN,
    HANDSHAKE_TIMEOUT_MS,
    MAX_HANDSHAKES,
    MAX_HANDSHAKES_PER_HOST,
)
from tidelog.runtime.line import Line


class Handshaking(Protocol):
    """A connection, as this module sees it."""

    host: str
    """The peer's address."""

    @property
    def is_accepted(self) -> bool:
        """Whether a peer opened it, and not this node."""

    def step(self) -> None:
        """Takes its handshake further."""

    def cut(self, reason: str) -> None:
        """Ends it; the reason is for the log."""


class Handshakes:
    """Those of one driver."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        timeout_ms: int = HANDSHAKE_TIMEOUT_MS,
        most: int = MAX_HANDSHAKES,
        most_per_host: int = MAX_HANDSHAKES_PER_HOST,
    ) -> None:
        self._loop = loop
        self._timeout_s = timeout_ms / 1000
        self._most = most
        self._most_per_host = most_per_host
        # Those under way and when they are cut, the oldest first.
        self._under_way: dict[Handshaking, float] = {}
        # How many of them each address has, of accepted ones.
        self._by_host: Counter[str] = Counter()
        # Steps that can be taken.
        self._steps = Line(loop, HANDSHAKE_STEPS_PER_TURN)
        # Whether `_expire` is due.
        self._timer: asyncio.TimerHandle | None = None
        # Since the start; for metrics.
        self.done = 0
        self.failed = 0

    def begin(self, one: Handshaking) -> None:
        """A connection begins its handshake."""
        if one.is_accepted:
            if self._by_host[one.host] >= self._most_per_host:
                self._cut_oldest(lambda other: other.host == one.host)
            elif self._by_host.total() >= self._most:
                self._cut_oldest(lambda other: True)
            self._by_host[one.host] += 1
        self._under_way[one] = self._loop.time() + self._timeout_s
        if self._timer is None:
            self._timer = self._loop.call_later(self._timeout_s, self._expire)

    def on_ready(self, one: Handshaking) -> None:
        """It can go on; its `step` follows in its turn."""
        self._steps.append(partial(self._step, one))

    def end(self, one: Handshaking, *, done: bool) -> None:
        """Its handshake has ended, one way or the other."""
        if self._under_way.pop(one, None) is None:
            return
        if one.is_accepted:
            self._by_host[one.host] -= 1
            if not self._by_host[one.host]:
                del self._by_host[one.host]
        self.done += done
        self.failed += not done

    def cut_all(self) -> None:
        """The node stops."""
        if self._timer is not None:
            self._timer.cancel()
        for one in list(self._under_way):
            one.cut("")

    def __len__(self) -> int:
        return len(self._under_way)

    def _step(self, one: Handshaking) -> None:
        if one in self._under_way:
            one.step()

    def _expire(self) -> None:
        now = self._loop.time()
        self._timer = None
        while self._under_way:
            one, due = next(iter(self._under_way.items()))
            if due > now:
                self._timer = self._loop.call_later(due - now, self._expire)
                return
            one.cut(f"no end after {self._timeout_s:g} s")

    def _cut_oldest(self, choose: Callable[[Handshaking], bool]) -> None:
        for one in self._under_way:
            if one.is_accepted and choose(one):
                one.cut("too many handshakes under way")
                return
